"""The claim folder: claims on GPUs, the queue for them, marks of fillers, and protections."""

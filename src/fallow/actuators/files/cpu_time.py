"""How much CPU time a thread has used: by this a piece of work is limited, however loaded the machine is."""

from time import thread_time

used_s = thread_time

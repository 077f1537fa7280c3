"""What a protection may name, as a pattern for OpenAPI; the parser decides, and words the mistake."""

from fallow.core.cluster_names import KIND_WORDS

_OF_A_CLUSTER = rf"({'|'.join(KIND_WORDS)}):[A-Za-z0-9_][A-Za-z0-9_.@+/\-]{{0,180}}"
SUBJECT = (
    r"^(all|gpu:[A-Za-z0-9:.\-]{1,64}|pid:[0-9]{1,9}(@[0-9]{1,19})?|user:[A-Za-z0-9_][A-Za-z0-9_.@\-]{0,62}|"
    rf"{_OF_A_CLUSTER})$"
)

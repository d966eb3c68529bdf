"""A run's outputs as differences from another run's on the same examples: most words are alike."""


def differences(text: bytes, base: bytes) -> bytes | None:
    """Return `text` without the words that `base` has at the same places.

    A line that equals the base's is empty. In a line with as many words as the base's, words that
    equal the base's are empty. Other lines are whole. None if `restored` would not give the text.
    """
    lines = text.split(b"\n")
    base_lines = base.split(b"\n")
    if len(lines) != len(base_lines):
        return None
    changed = []
    for line, base_line in zip(lines, base_lines, strict=True):
        words = line.split(b" ")
        base_words = base_line.split(b" ")
        if line == base_line:
            words = []
        elif len(words) == len(base_words):
            pairs = zip(words, base_words, strict=True)
            words = [b"" if word == base_word else word for word, base_word in pairs]
        changed.append(b" ".join(words))
    written = b"\n".join(changed)
    return written if restored(written, base) == text else None


def restored(changed: bytes, base: bytes) -> bytes:
    """Return the text with these differences; raises ValueError if they are not from `base`."""
    lines = []
    for line, base_line in zip(changed.split(b"\n"), base.split(b"\n"), strict=True):
        words = line.split(b" ")
        base_words = base_line.split(b" ")
        if not line:
            words = base_words
        elif len(words) == len(base_words):
            pairs = zip(words, base_words, strict=True)
            words = [word or base_word for word, base_word in pairs]
        lines.append(b" ".join(words))
    return b"\n".join(lines)

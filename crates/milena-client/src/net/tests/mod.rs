//! Connections against a real broker and against servers that misbehave.

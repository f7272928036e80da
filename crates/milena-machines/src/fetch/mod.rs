//! What a consumer reads next: positions and fetch sessions.

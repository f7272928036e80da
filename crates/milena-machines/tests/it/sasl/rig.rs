//! A broker's side with users and tokens, driven by frames.

use std::sync::Arc;

use bytes::Bytes;
use milena_machines::sasl::{
    FailureResponse, Mechanism, RequestVerdict, SaltedPassword, SaslResponse, SaslServerConfig, ScramCredential,
    ScramMechanism, ServerAction, ServerAuthenticator, Session, TokenRejection, VerifiedToken,
};
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    frame,
    message::Request,
    messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse},
};

pub(super) const SCRAM_256: Mechanism = Mechanism::Scram(ScramMechanism::Sha256);
pub(super) const SCRAM_512: Mechanism = Mechanism::Scram(ScramMechanism::Sha512);
pub(super) const CORRELATION_ID: i32 = 4711;

/// The outcome of one frame, after all questions of the machine have been answered.
#[derive(Debug)]
pub(super) enum Seen {
    /// The driver serves ApiVersions; the test reports the result.
    Versions,
    Response(SaslResponse),
    Complete(SaslResponse, Session),
    Failed(Option<FailureResponse>, String),
    Closed(String),
}

pub(super) struct Rig {
    pub(super) server: ServerAuthenticator,
    pub(super) now_ms: u64,
    /// The remaining lifetime of tokens.
    pub(super) token_ms: u64,
}

/// All mechanisms, without a limit for sessions.
pub(super) fn rig() -> Rig {
    rig_with(&Mechanism::ALL.map(|mechanism| (mechanism, None)))
}

pub(super) fn rig_with(mechanisms: &[(Mechanism, Option<u64>)]) -> Rig {
    let config = SaslServerConfig {
        mechanisms: mechanisms.to_vec(),
        fake_salt_key: [7; 32],
    };
    Rig {
        server: ServerAuthenticator::new(Arc::new(config)),
        now_ms: 1_000_000,
        token_ms: 60_000,
    }
}

/// Users `alice` and `bob` exist, with their names as passwords; `a,b=c` too.
fn is_user(username: &str) -> bool {
    ["alice", "bob", "a,b=c"].contains(&username)
}

pub(super) fn credential_of(mechanism: ScramMechanism, username: &str) -> Option<ScramCredential> {
    is_user(username).then(|| {
        let salt = Bytes::from(format!("salt of {username}"));
        let password = SaltedPassword::derive(mechanism, username.as_bytes(), &salt, 4096);
        ScramCredential::from_salted_password(&password, salt, 4096)
    })
}

impl Rig {
    pub(super) fn request<R: Request>(&mut self, request: &R, version: i16) -> Seen {
        let frame = frame::encode_request(request, version, CORRELATION_ID, None).unwrap();
        self.frame(frame.into_bytes().slice(frame::LENGTH_SIZE..))
    }

    pub(super) fn frame(&mut self, frame: Bytes) -> Seen {
        assert!(self.server.wants_frame());
        let action = self.server.handle_frame(frame, self.now_ms);
        self.settle(action)
    }

    /// Answers the questions of the machine.
    pub(super) fn settle(&mut self, action: ServerAction) -> Seen {
        let now_ms = self.now_ms;
        match action {
            ServerAction::ServeApiVersions(_) => Seen::Versions,
            ServerAction::Respond(response) => Seen::Response(response),
            ServerAction::Complete { response, session } => {
                assert!(!self.server.wants_frame());
                assert_eq!(self.server.session(), Some(&session));
                Seen::Complete(response, session)
            }
            ServerAction::Fail { response, failure } => {
                assert!(!self.server.wants_frame());
                Seen::Failed(response, failure.to_string())
            }
            ServerAction::Close(failure) => {
                assert!(!self.server.wants_frame());
                Seen::Closed(failure.to_string())
            }
            ServerAction::VerifyPlain(given) => {
                assert!(!self.server.wants_frame());
                let is_valid = is_user(given.username()) && given.username() == given.password();
                let action = self.server.handle_plain(is_valid, now_ms);
                self.settle(action)
            }
            ServerAction::LookupScram { mechanism, username } => {
                assert!(!self.server.wants_frame());
                let credential = credential_of(mechanism, &username);
                let action = self.server.handle_scram(credential, [3; 18], now_ms);
                self.settle(action)
            }
            ServerAction::VerifyToken(token) => {
                assert!(!self.server.wants_frame());
                let result = match token.token() {
                    "narrow" => Err(TokenRejection::InsufficientScope {
                        scope: Some("write".to_owned()),
                    }),
                    "offline" => Err(TokenRejection::Internal {
                        reason: "no keys".to_owned(),
                    }),
                    name if is_user(name) => Ok(VerifiedToken {
                        principal: name.into(),
                        lifetime_ms: self.token_ms,
                    }),
                    _ => Err(TokenRejection::Invalid {
                        reason: "expired".to_owned(),
                    }),
                };
                let action = self.server.handle_token(result, now_ms);
                self.settle(action)
            }
        }
    }

    pub(super) fn handshake(&mut self, mechanism: &str, version: i16) -> Seen {
        let request = SaslHandshakeRequest {
            mechanism: mechanism.into(),
        };
        self.request(&request, version)
    }

    /// A handshake that succeeds.
    pub(super) fn choose(&mut self, mechanism: Mechanism) {
        let Seen::Response(response) = self.handshake(mechanism.name(), 1) else {
            panic!("{mechanism} was refused");
        };
        assert_eq!(response.error, ErrorCode::None);
    }

    pub(super) fn token(&mut self, bytes: &[u8]) -> Seen {
        self.token_at(bytes, 2)
    }

    pub(super) fn token_at(&mut self, bytes: &[u8], version: i16) -> Seen {
        let request = SaslAuthenticateRequest {
            auth_bytes: Bytes::copy_from_slice(bytes),
            ..Default::default()
        };
        self.request(&request, version)
    }

    /// A whole log-in by PLAIN.
    pub(super) fn log_in(&mut self, username: &str) -> Seen {
        self.choose(Mechanism::Plain);
        self.token(plain(username).as_bytes())
    }

    pub(super) fn verdict(&mut self, key: ApiKey) -> RequestVerdict {
        self.server.handle_request(key, self.now_ms)
    }
}

pub(super) fn plain(username: &str) -> String {
    format!("\0{username}\0{username}")
}

impl Seen {
    /// The text of SASL_AUTHENTICATION_FAILED.
    pub(super) fn text(self) -> String {
        match self {
            Self::Failed(Some(FailureResponse::Sasl(response)), _) => {
                assert_eq!(response.error, ErrorCode::SaslAuthenticationFailed);
                let response = authenticate_response(&response, 2);
                assert_eq!(response.error_code, ErrorCode::SaslAuthenticationFailed.code());
                assert_eq!((response.session_lifetime_ms, response.auth_bytes.len()), (0, 0));
                response.error_message.unwrap().to_string()
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn session(self) -> Session {
        match self {
            Self::Complete(_, session) => session,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn challenge(self) -> Bytes {
        match self {
            Self::Response(response) => {
                let response = authenticate_response(&response, 2);
                assert_eq!((response.error_code, response.session_lifetime_ms), (0, 0));
                response.auth_bytes
            }
            other => panic!("{other:?}"),
        }
    }
}

fn body(response: &SaslResponse) -> Bytes {
    let length = i32::from_be_bytes(*response.bytes.first_chunk().unwrap());
    assert_eq!(length as usize, response.bytes.len() - frame::LENGTH_SIZE);
    response.bytes.slice(frame::LENGTH_SIZE..)
}

/// The bytes of a token without a header.
pub(super) fn bare(response: &SaslResponse) -> Bytes {
    assert_eq!(response.key, None);
    body(response)
}

pub(super) fn handshake_response(response: &SaslResponse, version: i16) -> SaslHandshakeResponse {
    assert_eq!(response.key, Some(ApiKey::SaslHandshake));
    let (id, message): (i32, SaslHandshakeResponse) = frame::decode_response(&body(response), version).unwrap();
    assert_eq!((id, message.error_code), (CORRELATION_ID, response.error.code()));
    message
}

pub(super) fn authenticate_response(response: &SaslResponse, version: i16) -> SaslAuthenticateResponse {
    assert_eq!(response.key, Some(ApiKey::SaslAuthenticate));
    let (id, message): (i32, SaslAuthenticateResponse) = frame::decode_response(&body(response), version).unwrap();
    assert_eq!((id, message.error_code), (CORRELATION_ID, response.error.code()));
    message
}

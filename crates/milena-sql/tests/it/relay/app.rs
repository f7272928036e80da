//! A relay inside an application.

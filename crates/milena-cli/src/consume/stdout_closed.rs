//! Detection of a closed stdout.

use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;

/// Waits until stdout is a pipe without a reader, as in `milena consume letters | head -1`. Otherwise the command would
/// notice it only at the next record.
pub(super) async fn stdout_closed() {
    let (sender, receiver) = oneshot::channel();
    // A blocking poll needs its own thread, which ends with the process.
    let watch = move || {
        let stdout = std::io::stdout();
        // No events are requested: errors and hang-ups are always reported.
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut watched, None).is_err_and(|error| error == rustix::io::Errno::INTR) {}
        let _ = sender.send(());
    };
    let watching = std::thread::Builder::new().name("stdout".to_owned()).spawn(watch);
    if watching.is_err() || receiver.await.is_err() {
        std::future::pending::<()>().await;
    }
}

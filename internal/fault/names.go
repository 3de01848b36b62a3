package fault

import "strings"

// names lists every point there is. A point that is not in it panics when it is
// hit, and internal/arch finds it before that.
const names = `
schedule.before_commit schedule.after_commit
claim.before_commit claim.after_commit catchup.after_read epoch.after_commit
journal.before_send journal.after_send journal.after_ack
begin.before_send begin.after_commit
exec.before_first_byte exec.after_first_byte exec.after_reply
end.before_send end.after_commit
park.in_doubt park.before_commit park.after_commit
finish.after_record finish.after_commit
handoff.before_commit handoff.after_commit child.before_commit child.after_commit
approval.before_commit approval.after_commit signal.before_commit signal.after_commit
reserve.before_commit reserve.after_commit cost.before_commit cost.after_commit
retry.before_commit requeue.before_commit requeue.after_commit fork.before_commit fork.after_commit
reopen.before_commit reopen.after_commit reconcile.before_commit reconcile.after_commit
renew.before settle.after_record model.after_reply
projector.before_tx projector.before_commit projector.after_commit projector.before_ack
feed.after_publish
memory.before_commit memory.after_commit
checkpoint.before_sign checkpoint.after_write
redact.before
artifact.after_blob artifact.before_event
`

// Names lists the registered points, in the order in which a run meets them.
func Names() []string { return strings.Fields(names) }

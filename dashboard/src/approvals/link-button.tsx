import { Link2 } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf } from '../api/client.ts';
import { useAction } from '../api/query.ts';
import { useWorkspace } from '../api/session.ts';
import { Button } from '../ui/button.tsx';
import { Time } from '../ui/data/time.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { Select } from '../ui/field.tsx';
import { ShownOnce } from '../ui/shown-once.tsx';
import type { Approval } from './waiting.ts';

/** Seconds for which a link is valid; empty: until the call or the question expires. */
const EXPIRIES = [
  { id: '', label: 'When this expires' },
  { id: '3600', label: 'After 1 hour' },
  { id: '86400', label: 'After 1 day' },
  { id: '604800', label: 'After 7 days' },
];

/** Creates a link that lets a person without an account decide once. */
export function LinkButton({ approval }: { readonly approval: Approval }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div className="-ml-3">
      <Button variant="quiet" icon={Link2} onPress={() => setOpen(true)}>
        Create link…
      </Button>
      {isOpen && <LinkDialog approval={approval} onClose={() => setOpen(false)} />}
    </div>
  );
}

function LinkDialog({
  approval: { id: approval_id, kind, expires_at },
  onClose,
}: {
  readonly approval: Approval;
  readonly onClose: () => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const create = useAction('createApprovalLink', { silent: true });
  const [seconds, setSeconds] = useState('');
  // The link exists only in this state and is discarded with the dialog.
  const [made, setMade] = useState<AnswerOf<'createApprovalLink'>>();
  const submit = async () => {
    try {
      const params = { workspace_id, approval_id };
      const body = seconds === '' ? {} : { expires_in_seconds: Number(seconds) };
      setMade(await create.mutateAsync({ params, body }));
      create.reset();
    } catch {
      // `create.error` holds the reason.
    }
  };
  if (made !== undefined) {
    return (
      <ShownOnce title="Link to decide" text={made.url} onClose={onClose}>
        <p>
          Whoever has this link can decide once. It expires <Time at={made.expires_at} />. Send it by a way that you
          trust.
        </p>
      </ShownOnce>
    );
  }
  const left = (Date.parse(expires_at) - Date.now()) / 1000;
  return (
    <Dialog
      title="Create a link to decide"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={create.isPending}>
            Create link
          </Button>
        </>
      }
    >
      <p>
        Whoever has the link sees the agent and what it asks, and can decide once, without an account.
        {kind === 'approve' && ' Arguments cannot be changed with it.'}
      </p>
      <Select
        label="Link expires"
        choices={EXPIRIES.filter(({ id }) => Number(id) < left)}
        value={seconds}
        onChange={setSeconds}
      />
      {create.error && <ErrorBox error={create.error} />}
    </Dialog>
  );
}

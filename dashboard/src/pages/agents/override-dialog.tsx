import { useState } from 'react';
import { useAction } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { toast } from '../../ui/toast.tsx';
import type { Version } from './version.ts';

/** Lets a version that its gate holds become latest, with the reason for the audit log. */
export function OverrideDialog({ version, onClose }: { readonly version: Version; readonly onClose: () => void }) {
  const override = useAction('overrideGate', { stale: ['listAgents', 'listAuditEntries'], silent: true });
  const [reason, setReason] = useState('');
  const save = () =>
    override.mutate(
      { params: { id: version.id }, body: { reason: reason.trim() } },
      {
        onSuccess: () => {
          toast({ tone: 'good', text: `The gate of ${version.version} is open.` });
          onClose();
        },
      },
    );
  return (
    <Dialog
      title={`Open the gate of ${version.version}?`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button variant="primary" onPress={save} isPending={override.isPending} isDisabled={reason.trim() === ''}>
            Open the gate
          </Button>
        </>
      }
    >
      <p>
        {version.version} becomes latest without its evaluation, unless a newer version is. Schedules and services that
        follow new versions move to it.
      </p>
      <TextField label="Reason" description="It is kept in the audit log." value={reason} onChange={setReason} />
      {override.error && <ErrorBox error={override.error} />}
    </Dialog>
  );
}

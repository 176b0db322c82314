import { KeyRound, Plus } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

const SCOPES = [
  { id: 'read', label: 'Read', description: 'Read-only access' },
  { id: 'approve', label: 'Approve', description: 'Read, approve calls that wait, and answer questions' },
  { id: 'publish', label: 'Publish', description: 'Publish agents and see them, nothing else' },
  { id: 'run', label: 'Run', description: 'Also run agents, cancel and replay runs' },
  { id: 'manage', label: 'Manage', description: 'Full access with your permissions' },
];
const DAYS = [
  { id: '30', label: 'In 30 days' },
  { id: '90', label: 'In 90 days' },
  { id: '', label: 'Never' },
];
const DAY_MS = 24 * 3600_000;

/** API keys of the signed-in user. */
export function KeysPage() {
  const { data, error, refetch } = useOperation('listApiKeys', {});
  const [isMaking, setMaking] = useState(false);
  const [revoking, setRevoking] = useState<{ readonly id: string; readonly name: string }>();
  const revoke = useAction('deleteApiKey', { stale: ['listApiKeys'], silent: true });
  return (
    <SettingsFrame
      part="keys"
      description="Your personal keys. Each has your permissions, limited by its scope."
      actions={
        <Button variant="primary" icon={Plus} onPress={() => setMaking(true)}>
          Create API key
        </Button>
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="API keys"
          rows={data}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Name', cell: ({ name }) => name },
            { title: 'Key', cell: ({ prefix }) => <Code>{`${prefix}…`}</Code>, from: 'sm' },
            { title: 'Scope', cell: ({ scope }) => <Badge>{scope}</Badge> },
            { title: 'Workspaces', cell: ({ workspace_id }) => (workspace_id ? 'One workspace' : 'All'), from: 'md' },
            {
              title: 'Last used',
              cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'Never'),
              from: 'sm',
            },
            {
              title: 'Expires',
              cell: ({ expires_at }) => (expires_at ? <Time at={expires_at} /> : 'Never'),
              from: 'md',
            },
            {
              title: 'Action',
              cell: ({ id, name }) => (
                <Button variant="danger" aria-label={`Revoke ${name}`} onPress={() => setRevoking({ id, name })}>
                  Revoke
                </Button>
              ),
            },
          ]}
          empty={
            <Empty icon={KeyRound} title="No API keys" command={`${COMMAND} keys create my-program --scope run`}>
              Programs and terminals authenticate with a key. Create one above, or from a terminal that is signed in:
            </Empty>
          }
        />
      )}
      {isMaking && <NewKey onClose={() => setMaking(false)} />}
      <ConfirmDialog
        title={`Revoke "${revoking?.name}"?`}
        isOpen={revoking !== undefined}
        onClose={() => setRevoking(undefined)}
        action="Revoke key"
        onConfirm={() => revoke.mutateAsync({ params: { id: revoking!.id } })}
      >
        Clients and browsers that use this key are signed out.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

function NewKey({ onClose }: { readonly onClose: () => void }) {
  const workspace = useWorkspace();
  const [name, setName] = useState('');
  const [scope, setScope] = useState('run');
  const [days, setDays] = useState('90');
  const [isOfOne, setOfOne] = useState(true);
  const make = useAction('createApiKey', { stale: ['listApiKeys'], silent: true });
  // The key exists only in this state and is discarded with the dialog.
  const [key, setKey] = useState<string>();
  const submit = async () => {
    try {
      const { key } = await make.mutateAsync({
        body: {
          name,
          scope: scope as 'read' | 'approve' | 'publish' | 'run' | 'manage',
          ...(isOfOne && { workspace_id: workspace.id }),
          ...(days !== '' && { expires_at: new Date(Date.now() + Number(days) * DAY_MS).toISOString() }),
        },
      });
      make.reset();
      setKey(key);
    } catch {
      // `make.error` holds the reason.
    }
  };
  if (key !== undefined) return <ShownOnce title="Your new API key" text={key} onClose={onClose} />;
  return (
    <Dialog
      title="Create an API key"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={make.isPending} isDisabled={name.trim() === ''}>
            Create key
          </Button>
        </>
      }
    >
      <TextField label="Name" value={name} onChange={setName} autoFocus placeholder="What the key is for" />
      <Select label="Scope" choices={SCOPES} value={scope} onChange={setScope} />
      <Select label="Expires" choices={DAYS} value={days} onChange={setDays} />
      <Checkbox value={isOfOne} onChange={setOfOne}>
        Workspaces {workspace.name} only
      </Checkbox>
      {make.error && <ErrorBox error={make.error} />}
    </Dialog>
  );
}

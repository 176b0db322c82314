import { Lock, Plus } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { ConnectionsSection } from './connections-section.tsx';
import { SettingsFrame } from './settings-frame.tsx';

/** Names of the workspace's secrets. No API returns a value. */
export function SecretsPage() {
  const { id: workspace_id, role } = useWorkspace();
  const { data, error, refetch } = useOperation('listSecrets', { params: { workspace_id } });
  const [isSetting, setSetting] = useState(false);
  const [deleting, setDeleting] = useState<string>();
  const remove = useAction('deleteSecret', { stale: ['listSecrets'], silent: true });
  const isOwner = role === 'owner';
  return (
    <SettingsFrame
      part="secrets"
      description="Secret values for agents. Values cannot be viewed after they are saved."
      actions={
        isOwner && (
          <Button variant="primary" icon={Plus} onPress={() => setSetting(true)}>
            Set secret
          </Button>
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Secrets"
          rows={data.secrets}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Name', cell: ({ name }) => <Code>{name}</Code> },
            { title: 'Description', cell: ({ description }) => description ?? '', from: 'sm' },
            { title: 'Updated', cell: ({ updated_at }) => <Time at={updated_at} />, from: 'sm' },
            ...(isOwner
              ? [
                  {
                    title: 'Action',
                    cell: ({ name }: { readonly name: string }) => (
                      <Button variant="danger" aria-label={`Delete ${name}`} onPress={() => setDeleting(name)}>
                        Delete
                      </Button>
                    ),
                  },
                ]
              : []),
          ]}
          empty={
            <Empty icon={Lock} title="No secrets yet" command={`${COMMAND} secrets set ANTHROPIC_API_KEY`}>
              Agents declare which secrets they need, such as the key of a model provider. Set one above, or from a
              terminal:
            </Empty>
          }
        />
      )}
      <ConnectionsSection />
      {isSetting && <SetSecret onClose={() => setSetting(false)} />}
      <ConfirmDialog
        title={`Delete ${deleting}?`}
        isOpen={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        action="Delete secret"
        onConfirm={() => remove.mutateAsync({ params: { workspace_id, name: deleting! } })}
      >
        Agents that require it will fail. The value cannot be recovered.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

function SetSecret({ onClose }: { readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const set = useAction('putSecret', { stale: ['listSecrets'], silent: true });
  const submit = async () => {
    try {
      await set.mutateAsync({ params: { workspace_id }, body: { name, value } });
      // Discards the request, which holds the value.
      set.reset();
      onClose();
    } catch {
      // `set.error` holds the reason.
    }
  };
  return (
    <Dialog
      title="Set a secret"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={set.isPending} isDisabled={name === '' || value === ''}>
            Set secret
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        value={name}
        onChange={(text) => setName(text.toUpperCase().replaceAll(/[^A-Z0-9_]/g, '_'))}
        autoFocus
        isMono
        description="Replaces an existing secret with this name."
      />
      <TextField label="Value" value={value} onChange={setValue} type="password" autoComplete="off" />
      {set.error && <ErrorBox error={set.error} />}
    </Dialog>
  );
}

import { Plug } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspaces } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

/** Clients that the signed-in user let in, in all workspaces. */
export function ClientsPage() {
  const { data, error, refetch } = useOperation('listConnectedClients', {});
  const workspaces = useWorkspaces();
  const [ending, setEnding] = useState<{ readonly id: string; readonly client_name: string }>();
  const end = useAction('deleteConnectedClient', { stale: ['listConnectedClients'], silent: true });
  return (
    <SettingsFrame part="clients" description="Clients that you let in. Each acts for you, in one workspace.">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Connected clients"
          rows={data.clients}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Client', cell: ({ client_name }) => client_name },
            { title: 'From', cell: ({ client_id }) => new URL(client_id).host, from: 'sm' },
            { title: 'Access to', cell: ({ resource }) => <Code>{new URL(resource).pathname}</Code>, from: 'md' },
            { title: 'Scope', cell: ({ scope }) => <Badge>{scope}</Badge> },
            {
              title: 'Workspace',
              cell: ({ workspace_id }) =>
                workspaces.find(({ id }) => id === workspace_id)?.name ?? 'Not yours any more',
              from: 'md',
            },
            {
              title: 'Last used',
              cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'Never'),
              from: 'sm',
            },
            {
              title: 'Action',
              cell: (client) => (
                <Button
                  variant="danger"
                  aria-label={`Disconnect ${client.client_name}`}
                  onPress={() => setEnding(client)}
                >
                  Disconnect
                </Button>
              ),
            },
          ]}
          empty={
            <Empty icon={Plug} title="No connected clients">
              Clients such as editors and assistants connect by the address of an agent and ask you to let them in.
            </Empty>
          }
        />
      )}
      <ConfirmDialog
        title={`Disconnect "${ending?.client_name}"?`}
        isOpen={ending !== undefined}
        onClose={() => setEnding(undefined)}
        action="Disconnect client"
        onConfirm={() => end.mutateAsync({ params: { id: ending!.id } })}
      >
        Its tokens are refused at once. It can ask you again.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

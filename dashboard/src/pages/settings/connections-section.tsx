import { Plug } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Section } from '../../ui/page.tsx';
import { Code } from '../../ui/text/code.tsx';

/** Name of the connection whose sign-in this tab has begun: the provider's redirect does not tell it. */
const CONNECTING = 'connecting';
const OWNERS = [
  { id: 'workspace', label: 'The workspace', description: 'All runs use it' },
  { id: 'user', label: 'Me', description: 'Only runs that begin with my own calls use it' },
] as const;

interface Shown {
  readonly name: string;
  readonly owner: string;
  readonly user_id: string | null;
  readonly url: string;
}

/** Sign-ins at MCP servers and APIs. No API returns their tokens. */
export function ConnectionsSection() {
  const { id: workspace_id, role } = useWorkspace();
  const { data, error, refetch } = useOperation('listConnections', { params: { workspace_id } });
  const [connecting, setConnecting] = useState<Partial<Shown>>();
  const [removing, setRemoving] = useState<Shown>();
  const remove = useAction('deleteConnection', { stale: ['listConnections'], silent: true });
  const finishError = useFinishedSignIn();
  const isOwner = role === 'owner';
  return (
    <Section
      title="Connections"
      isFramed={false}
      actions={
        <Button icon={Plug} onPress={() => setConnecting({})}>
          Connect
        </Button>
      }
    >
      {finishError && <ErrorBox error={finishError} />}
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {data && (
        <Table
          label="Connections"
          rows={data.connections}
          keyOf={({ name, user_id }) => `${name} ${user_id}`}
          columns={[
            { title: 'Name', cell: ({ name }) => <Code>{name}</Code> },
            { title: 'Server', cell: ({ url }) => url, from: 'sm' },
            { title: 'For', cell: ({ owner }) => (owner === 'workspace' ? 'The workspace' : 'One user'), from: 'sm' },
            {
              title: 'State',
              cell: ({ state, problem }) => (
                <span title={problem ?? undefined}>{state === 'connected' ? 'Connected' : 'Needs sign-in'}</span>
              ),
            },
            {
              title: 'Last used',
              cell: ({ last_used_at }) => (last_used_at === null ? 'Never' : <Time at={last_used_at} />),
              from: 'sm',
            },
            {
              title: 'Action',
              cell: (each) =>
                (isOwner || each.owner === 'user') && (
                  <span className="flex gap-2">
                    <Button aria-label={`Connect ${each.name} again`} onPress={() => setConnecting(each)}>
                      Connect again
                    </Button>
                    <Button variant="danger" aria-label={`Remove ${each.name}`} onPress={() => setRemoving(each)}>
                      Remove
                    </Button>
                  </span>
                ),
            },
          ]}
          empty={
            <Empty
              icon={Plug}
              title="No connections yet"
              command={`${COMMAND} connect linear https://mcp.linear.app/mcp`}
            >
              A connection is your sign-in at an MCP server or an API that agents use. Connect above, or from a
              terminal:
            </Empty>
          }
        />
      )}
      {connecting && <Connect present={connecting} onClose={() => setConnecting(undefined)} />}
      <ConfirmDialog
        title={`Remove ${removing?.name}?`}
        isOpen={removing !== undefined}
        onClose={() => setRemoving(undefined)}
        action="Remove connection"
        onConfirm={() =>
          remove.mutateAsync({
            params: { workspace_id, connection: removing!.name },
            query: { owner: removing!.user_id ?? 'workspace' },
          })
        }
      >
        Agents that require it will fail. Its tokens are erased and, where the provider allows it, revoked.
      </ConfirmDialog>
    </Section>
  );
}

/** Finishes the sign-in from which the provider has sent the browser back. Returns why it failed. */
function useFinishedSignIn() {
  const { id: workspace_id } = useWorkspace();
  const finish = useAction('finishConnection', { stale: ['listConnections'], silent: true });
  const isSent = useRef(false);
  useEffect(() => {
    const answer = location.search.slice(1);
    const name = sessionStorage.getItem(CONNECTING);
    if (isSent.current || name === null || !new URLSearchParams(answer).has('state')) return;
    isSent.current = true;
    sessionStorage.removeItem(CONNECTING);
    // No history contains the code.
    history.replaceState(null, '', location.pathname);
    finish.mutate({ params: { workspace_id, connection: name }, body: { answer } });
  }, [workspace_id, finish]);
  return finish.error;
}

function Connect({ present, onClose }: { readonly present: Partial<Shown>; readonly onClose: () => void }) {
  const { id: workspace_id, role } = useWorkspace();
  const [name, setName] = useState(present.name ?? '');
  const [url, setUrl] = useState(present.url ?? '');
  const [owner, setOwner] = useState(present.owner ?? (role === 'owner' ? 'workspace' : 'user'));
  const begin = useAction('createConnection', { silent: true });
  const submit = async () => {
    try {
      const body = { name, url, owner: owner as 'workspace' | 'user', dashboard: true };
      const { authorization_url } = await begin.mutateAsync({ params: { workspace_id }, body });
      sessionStorage.setItem(CONNECTING, name);
      location.assign(authorization_url);
    } catch {
      // `begin.error` holds the reason.
    }
  };
  return (
    <Dialog
      title="Connect to a server"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={begin.isPending} isDisabled={name === '' || url === ''}>
            Continue to sign-in
          </Button>
        </>
      }
    >
      <TextField
        label="Name"
        value={name}
        onChange={(text) => setName(text.toLowerCase().replaceAll(/[^a-z0-9-]/g, '-'))}
        autoFocus
        isMono
        description="Manifests name the connection so. Replaces an existing connection with this name."
      />
      <TextField label="Address" value={url} onChange={setUrl} placeholder="https://mcp.example.com/mcp" />
      {role === 'owner' && <Select label="For" choices={OWNERS} value={owner} onChange={setOwner} />}
      {begin.error && <ErrorBox error={begin.error} />}
      <p className="text-xs text-soft">
        For a provider that wants a registered client, use <Code>{`${COMMAND} connect NAME URL --client-id ID`}</Code>.
      </p>
    </Dialog>
  );
}

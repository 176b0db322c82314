import { Handshake, Plus } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

type Grant = AnswerOf<'listGrants'>['grants'][number];
type Scope = Grant['scopes'][number];

const SCOPES: readonly (readonly [Scope, string])[] = [
  ['memory', 'Read and write the memory of loops'],
  ['messages', 'Send and read messages'],
  ['storage', 'Read and write all documents'],
  ['tasks', 'Read and change tasks'],
];

const paramsOf = (agent: string) => {
  const [org = '', name = ''] = agent.split('/');
  return { org, agent: name };
};

/** Access granted to agents of other workspaces when this workspace calls them, and servers that agents may connect to. */
export function GrantsPage() {
  const { id: workspace_id, role } = useWorkspace();
  const isOwner = role === 'owner';
  const { data, error, refetch } = useOperation('listGrants', { params: { workspace_id } }, { enabled: isOwner });
  const [shown, setShown] = useState<{ readonly of?: Grant }>();
  const [removing, setRemoving] = useState<Grant>();
  const remove = useAction('deleteGrant', { stale: ['listGrants'], silent: true });
  return (
    <SettingsFrame
      part="grants"
      description="What agents of other workspaces can access here, and which databases and other servers agents can connect to. Without a grant, agents of others cannot use secrets, tasks, messages or documents, and every agent connects to ports 80 and 443 only."
      actions={
        isOwner && (
          <Button variant="primary" icon={Plus} onPress={() => setShown({})}>
            Grant
          </Button>
        )
      }
    >
      {!isOwner && <p className="text-soft">Only workspace owners can view and change grants.</p>}
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {isOwner && !data && !error && <Loading />}
      {data && (
        <Table
          label="Grants"
          rows={data.grants}
          keyOf={({ agent }) => agent}
          columns={[
            {
              title: 'Agent',
              cell: ({ agent, version }) => `${agent}@${version === 'all' ? 'any version' : version}`,
            },
            { title: 'Secrets', cell: ({ secrets }) => <Names names={secrets} /> },
            { title: 'May use', cell: ({ scopes }) => <Names names={scopes} />, from: 'sm' },
            { title: 'Connects to', cell: ({ egress }) => <Names names={egress} />, from: 'sm' },
            { title: 'Since', cell: ({ granted_at }) => <Time at={granted_at} />, from: 'md' },
            {
              title: 'Action',
              cell: (grant) => (
                <span className="flex flex-wrap gap-2">
                  <Button aria-label={`Change grant of ${grant.agent}`} onPress={() => setShown({ of: grant })}>
                    Change
                  </Button>
                  <Button
                    variant="danger"
                    aria-label={`Revoke grant of ${grant.agent}`}
                    onPress={() => setRemoving(grant)}
                  >
                    Revoke
                  </Button>
                </span>
              ),
            },
          ]}
          empty={
            <Empty
              icon={Handshake}
              title="No grants yet"
              command={`${COMMAND} grants put ORG/AGENT --agent-version v1 --secrets ANTHROPIC_API_KEY`}
            >
              A grant lets an agent of another workspace use secrets of yours, or an agent connect to a database. Create
              one above, or from a terminal:
            </Empty>
          }
        />
      )}
      {shown && <GrantForm of={shown.of} onClose={() => setShown(undefined)} />}
      <ConfirmDialog
        title={`Revoke grant of ${removing?.agent}?`}
        isOpen={removing !== undefined}
        onClose={() => setRemoving(undefined)}
        action="Revoke"
        onConfirm={() => remove.mutateAsync({ params: { workspace_id, ...paramsOf(removing!.agent) } })}
      >
        It loses access to this workspace with its next run.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

const Names = ({ names }: { readonly names: readonly string[] }) =>
  names.length === 0 ? (
    <span className="text-soft">–</span>
  ) : (
    <span className="flex flex-wrap gap-1">
      {names.map((name) => (
        <Code key={name}>{name}</Code>
      ))}
    </span>
  );

function GrantForm({ of, onClose }: { readonly of: Grant | undefined; readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const secrets = useOperation('listSecrets', { params: { workspace_id } });
  const [agent, setAgent] = useState(of?.agent ?? '');
  const [version, setVersion] = useState(of?.version ?? 'v1');
  const [chosen, setChosen] = useState<readonly string[]>(of?.secrets ?? []);
  const [scopes, setScopes] = useState<readonly Scope[]>(of?.scopes ?? []);
  const [egress, setEgress] = useState(of?.egress.join('\n') ?? '');
  const put = useAction('putGrant', { stale: ['listGrants'], silent: true });
  const names = [...new Set([...(secrets.data?.secrets.map(({ name }) => name) ?? []), ...chosen])].sort();
  const submit = async () => {
    try {
      await put.mutateAsync({
        params: { workspace_id, ...paramsOf(agent.trim()) },
        body: {
          version: version.trim(),
          secrets: [...chosen],
          scopes: [...scopes],
          egress: egress.split(/[\s,]+/).filter((target) => target !== ''),
        },
        // Prevents overwriting a concurrent change.
        ...(of && { headers: { 'if-match': of.revision } }),
      });
      onClose();
    } catch {
      // `put.error` holds the reason.
    }
  };
  return (
    <Dialog
      title={of ? `Change grant of ${of.agent}` : 'Grant to an agent'}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button
            variant="primary"
            onPress={submit}
            isPending={put.isPending}
            isDisabled={!/^[^/\s]+\/[^/\s]+$/.test(agent.trim()) || version.trim() === ''}
          >
            {of ? 'Save grant' : 'Grant'}
          </Button>
        </>
      }
    >
      {!of && <TextField label="Agent" value={agent} onChange={setAgent} autoFocus isMono placeholder="org/agent" />}
      <TextField
        label="Version"
        value={version}
        onChange={setVersion}
        isMono
        description={'For example "v1". "all" includes future versions, whose author decides what they do.'}
      />
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 font-medium">Secrets</legend>
        {secrets.error && <ErrorBox error={secrets.error} />}
        {names.length === 0 && <p className="text-soft">The workspace has no secrets.</p>}
        {names.map((name) => (
          <Checkbox
            key={name}
            value={chosen.includes(name)}
            onChange={(on) => setChosen(on ? [...chosen, name] : chosen.filter((each) => each !== name))}
          >
            <Code>{name}</Code>
          </Checkbox>
        ))}
      </fieldset>
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 font-medium">May use</legend>
        {SCOPES.map(([scope, label]) => (
          <Checkbox
            key={scope}
            value={scopes.includes(scope)}
            onChange={(on) => setScopes(on ? [...scopes, scope] : scopes.filter((each) => each !== scope))}
          >
            {label}
          </Checkbox>
        ))}
      </fieldset>
      <TextField
        label="Connects to"
        value={egress}
        onChange={setEgress}
        isMono
        lines={2}
        placeholder="db.example.com:5432"
        description="Servers besides HTTP and HTTPS, each as host:port of the agent's manifest. An agent of this workspace needs no other grant."
      />
      {put.error && <ErrorBox error={put.error} />}
    </Dialog>
  );
}

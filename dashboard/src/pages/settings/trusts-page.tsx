import { GitBranch, Plus } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf, ArgumentsOf } from '../../api/client.ts';
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
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

type Trust = AnswerOf<'listTrusts'>['trusts'][number];
type NewTrust = ArgumentsOf<'createTrust'>['body'];

/** Jobs of CI systems that may publish without a stored key, for owners. */
export function TrustsPage() {
  const { id: workspace_id, role } = useWorkspace();
  const isOwner = role === 'owner';
  const { data, error, refetch } = useOperation('listTrusts', { params: { workspace_id } }, { enabled: isOwner });
  const [isAdding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<Trust>();
  const remove = useAction('deleteTrust', { stale: ['listTrusts'], silent: true });
  return (
    <SettingsFrame
      part="trusts"
      description="CI jobs that may publish agents here. Each gets a key of ten minutes for its ID token, so there is no key to store."
      actions={
        isOwner && (
          <Button variant="primary" icon={Plus} onPress={() => setAdding(true)}>
            Add trust
          </Button>
        )
      }
    >
      {!isOwner && <p className="text-soft">Only workspace owners can view and change trusts.</p>}
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {isOwner && !data && !error && <Loading />}
      {data && (
        <Table
          label="Trusts"
          rows={data.trusts}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Jobs of', cell: (trust) => <Claims {...trust} /> },
            { title: 'Issuer', cell: ({ issuer }) => new URL(issuer).host, from: 'md' },
            { title: 'Agents', cell: ({ agents }) => agents?.join(', ') ?? 'all', from: 'sm' },
            {
              title: 'Last used',
              cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'Never'),
              from: 'sm',
            },
            {
              title: 'Action',
              cell: (trust) => (
                <Button variant="danger" aria-label={`Delete ${nameOf(trust)}`} onPress={() => setDeleting(trust)}>
                  Delete
                </Button>
              ),
            },
          ]}
          empty={
            <Empty
              icon={GitBranch}
              title="No trusts"
              command={`${COMMAND} trusts add --repository acme/agents --ref refs/heads/main`}
            >
              Add a repository above or from a terminal, and its jobs publish without a key:
            </Empty>
          }
        />
      )}
      {isAdding && <AddTrust onClose={() => setAdding(false)} />}
      <ConfirmDialog
        title="Delete the trust?"
        isOpen={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        action="Delete trust"
        onConfirm={() => remove.mutateAsync({ params: { workspace_id, trust_id: deleting!.id } })}
      >
        Jobs of {deleting && nameOf(deleting)} cannot publish any more. Keys that they have are refused at once.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

/** Names a trust by the claim that says most. */
const nameOf = ({ claims, issuer }: Trust): string =>
  claims.repository ?? claims.project_path ?? claims.sub ?? new URL(issuer).host;

function Claims({ claims }: Trust) {
  return (
    <span className="flex flex-wrap gap-1">
      {Object.entries(claims).map(([name, value]) => (
        <Code key={name}>{`${name}: ${value}`}</Code>
      ))}
    </span>
  );
}

const SYSTEMS = [
  { id: 'github', label: 'GitHub Actions' },
  { id: 'other', label: 'Another' },
] as const;

const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');

/** Reads lines such as `ref: main`. Returns `undefined` if one has another form. */
function claimsIn(text: string): Record<string, string> | undefined {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const found = lines.map((line) => {
    const at = line.indexOf(':');
    return [line.slice(0, Math.max(at, 0)).trim(), line.slice(at + 1).trim()] as const;
  });
  if (found.length === 0 || found.some(([name, value]) => name === '' || value === '')) return undefined;
  return Object.fromEntries(found);
}

function AddTrust({ onClose }: { readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const [system, setSystem] = useState<string>('github');
  const [repository, setRepository] = useState('');
  const [ref, setRef] = useState('refs/heads/main');
  const [environment, setEnvironment] = useState('');
  const [repositoryId, setRepositoryId] = useState('');
  const [issuer, setIssuer] = useState('');
  const [claims, setClaims] = useState('');
  const [audience, setAudience] = useState('');
  const [agents, setAgents] = useState('');
  const create = useAction('createTrust', { stale: ['listTrusts'], silent: true });
  const isGitHub = system === 'github';
  const read = claimsIn(claims);
  const isReady = isGitHub ? repository.trim() !== '' : issuer.trim() !== '' && read !== undefined;
  const submit = async () => {
    const given = (name: keyof NewTrust, text: string) => (text.trim() === '' ? {} : { [name]: text.trim() });
    const names = listOf(agents);
    const body: NewTrust = {
      ...(isGitHub
        ? {
            ...given('repository', repository),
            ...given('ref', ref),
            ...given('environment', environment),
            ...given('repository_id', repositoryId),
          }
        : { ...given('issuer', issuer), claims: read! }),
      ...given('audience', audience),
      ...(names.length > 0 && { agents: names }),
    };
    try {
      await create.mutateAsync({ params: { workspace_id }, body });
      onClose();
    } catch {
      // `create.error` holds the reason.
    }
  };
  return (
    <Dialog
      title="Add a trust"
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button variant="primary" onPress={submit} isPending={create.isPending} isDisabled={!isReady}>
            Add trust
          </Button>
        </>
      }
    >
      <Select label="CI system" value={system} onChange={setSystem} choices={SYSTEMS} />
      {isGitHub ? (
        <>
          <TextField
            label="Repository"
            value={repository}
            onChange={setRepository}
            isMono
            placeholder="acme/agents"
            description="As GitHub spells it."
          />
          <TextField
            label="Branch or tag"
            value={ref}
            onChange={setRef}
            isMono
            description="Such as refs/heads/main, or refs/tags/v* for all that begin with v. Empty: all branches."
          />
          <TextField label="Environment" value={environment} onChange={setEnvironment} description="Empty: any." />
          <TextField
            label="Number of the repository"
            value={repositoryId}
            onChange={setRepositoryId}
            isMono
            description="Its id at GitHub, so that nobody else can take its name and publish. Empty: not checked."
          />
        </>
      ) : (
        <>
          <TextField
            label="Issuer"
            value={issuer}
            onChange={setIssuer}
            isMono
            placeholder="https://gitlab.com"
            description="A public https address, as the tokens spell it."
          />
          <TextField
            label="Claims"
            value={claims}
            onChange={setClaims}
            isMono
            lines={3}
            placeholder={'project_path: acme/agents\nref: main'}
            description="One on each line. A * at the end stands for any ending."
          />
        </>
      )}
      <TextField
        label="Audience"
        value={audience}
        onChange={setAudience}
        isMono
        description="Empty: the address of the platform."
      />
      <TextField
        label="Agents"
        value={agents}
        onChange={setAgents}
        isMono
        placeholder="triage, report"
        description="Names, separated by commas. Empty: all."
      />
      {create.error && <ErrorBox error={create.error} />}
    </Dialog>
  );
}

import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { isHeld, mayBeCurrent } from '#core/agents/gates/standing.ts';
import { manifestOf } from '#core/manifest/publish-body.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { bytes } from '../../ui/data/numbers.tsx';
import { Badge, Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { DiffView } from '../../ui/text/diff.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { expand, filesOf, textOf, useBundle } from './bundle-zip.ts';
import { Channels } from './channels.tsx';
import { OverrideDialog } from './override-dialog.tsx';
import { publishAgain } from './publish-again.ts';
import { skillFilesOf } from './skill-files.ts';
import type { TabProps, Version } from './version.ts';

const route = getRouteApi('/signed-in/$workspace/agents/$name');

/** All versions of an agent, with its channels, a diff between two of them and a rollback to an older one. */
export default function VersionsTab({ agent, versions }: TabProps) {
  const { with: other } = route.useSearch();
  const { id: workspaceId, slug, role } = useWorkspace();
  const [restored, setRestored] = useState<Version>();
  const [deleted, setDeleted] = useState<Version>();
  const [opened, setOpened] = useState<Version>();
  const [key, setKey] = useState<string>();
  const remove = useAction('deleteAgent', { stale: ['listAgents'], silent: true });
  const isOwner = role === 'owner';
  return (
    <>
      <Table
        label="Versions"
        rows={versions}
        keyOf={({ id }) => id}
        columns={[
          {
            title: 'Version',
            cell: (each) => (
              <span className="flex flex-wrap items-center gap-1.5">
                {each.version} <State version={each} />
              </span>
            ),
          },
          { title: 'Published', cell: ({ created_at }) => <Time at={created_at} /> },
          {
            title: 'Callable until',
            cell: ({ sunset_at }) => (sunset_at ? <Time at={sunset_at} /> : <span className="text-soft">–</span>),
            from: 'md',
          },
          {
            title: 'Action',
            cell: (each) => (
              <span className="flex flex-wrap gap-2">
                {isHeld(each) && (
                  <>
                    <Link
                      to="/$workspace/agents/$name/evals/$eval"
                      params={{ workspace: slug, name: agent.name, eval: each.gate!.eval_id }}
                    >
                      Evaluation
                    </Link>
                    <Button
                      isDisabled={!isOwner}
                      aria-label={`Open the gate of ${each.version}`}
                      onPress={() => setOpened(each)}
                    >
                      Open the gate
                    </Button>
                  </>
                )}
                {each.version !== each.current_version && (
                  <Button
                    isDisabled={!isOwner || !each.runnable}
                    aria-label={`Publish again: ${each.version}`}
                    onPress={() => setRestored(each)}
                  >
                    Publish again
                  </Button>
                )}
                <Button
                  variant="danger"
                  isDisabled={!isOwner}
                  aria-label={`Delete ${each.version}`}
                  onPress={() => setDeleted(each)}
                >
                  Delete
                </Button>
              </span>
            ),
          },
        ]}
      />
      {agent.type !== 'skill' && <Channels agent={agent} versions={versions} />}
      {versions.length > 1 && <Compare agent={agent} versions={versions} other={other} />}
      <ConfirmDialog
        title={`Publish ${restored?.version} again?`}
        isOpen={restored !== undefined}
        onClose={() => setRestored(undefined)}
        action="Publish again"
        isDanger={false}
        onConfirm={async () => setKey(await publishAgain(restored!, { workspaceId }))}
      >
        What {slug}/{agent.name}@{restored?.version} contains becomes the next version: its manifest, prompt, schemas
        and code. Callers of “latest” and schedules that follow new versions use it. Pinned versions do not change.
      </ConfirmDialog>
      {opened && <OverrideDialog version={opened} onClose={() => setOpened(undefined)} />}
      {key !== undefined && (
        <ShownOnce title={`Service key of ${agent.name}`} text={key} onClose={() => setKey(undefined)}>
          With it, the agent calls those that it depends on.
        </ShownOnce>
      )}
      <ConfirmDialog
        title={`Delete ${deleted?.version}?`}
        isOpen={deleted !== undefined}
        onClose={() => setDeleted(undefined)}
        action="Delete version"
        onConfirm={() => remove.mutateAsync({ params: { id: deleted!.id }, query: { confirmation_name: agent.name } })}
      >
        Its next call is answered “not found”; runs that have begun go on. {afterDeletion(deleted, versions)}
      </ConfirmDialog>
    </>
  );
}

function State({
  version: { version, current_version, runnable, environment_status, sunset_at, gate, preview },
}: {
  readonly version: Version;
}) {
  if (version === current_version) return <Badge tone="good">Latest</Badge>;
  if (sunset_at) return <Status value="deprecated" />;
  if (preview) return <Badge tone="info">Preview {preview.name}</Badge>;
  if (environment_status === 'building') return <Badge tone="info">Installing</Badge>;
  if (!runnable) return <Badge tone="bad">Cannot run</Badge>;
  if (gate?.status === 'pending') return <Badge tone="info">In evaluation</Badge>;
  return gate?.status === 'failed' ? <Badge tone="bad">Held: {escapeText(gate.reason ?? '')}</Badge> : null;
}

function afterDeletion(deleted: Version | undefined, versions: readonly Version[]): string {
  if (deleted === undefined || deleted.version !== deleted.current_version) return '';
  const next = versions.find((each) => each !== deleted && mayBeCurrent(each));
  return next === undefined ? 'Calls to “latest” will then fail.' : `“latest” will then be ${next.version}.`;
}

const json = (value: unknown): string => JSON.stringify(value ?? null, null, 2);

function partsOf(version: Version) {
  const { prompt, input_schema, output_schema, ...others } = version;
  return new Map<string, string>([
    ['agent.json', json(manifestOf(others))],
    ['prompt', prompt ?? ''],
    ['input schema', json(input_schema)],
    ['output schema', json(output_schema)],
    ...skillFilesOf(version).map(
      ({ path, size, content, encoding, sha256 }) =>
        [path, content ?? `${encoding ? 'Binary' : 'Text'}, ${bytes(size)}, SHA-256 ${sha256}`] as const,
    ),
  ]);
}

function Compare({ agent, versions, other: wanted }: TabProps & { readonly other: string | undefined }) {
  const navigate = route.useNavigate();
  const others = versions.filter(({ id }) => id !== agent.id);
  const before = versions[versions.indexOf(agent) + 1] ?? others[0]!;
  const other = others.find(({ version }) => version === wanted) ?? before;
  const [from, to] = [partsOf(other), partsOf(agent)];
  const names = [...new Set([...from.keys(), ...to.keys()])];
  const changed = names.filter((name) => from.get(name) !== to.get(name));
  return (
    <Section
      title={`What ${agent.version} changes`}
      actions={
        <div className="flex items-center gap-2">
          compared with
          <div className="w-28">
            <Select
              label="Compared with"
              isLabelHidden
              value={other.version}
              onChange={(next) => void navigate({ search: (now) => ({ ...now, with: next }), replace: true })}
              choices={others.map(({ version }) => ({ id: version, label: version }))}
            />
          </div>
        </div>
      }
    >
      <div className="flex flex-col gap-4">
        {changed.length === 0 && <p className="text-soft">Manifest, prompt and schemas are identical.</p>}
        {changed.map((name) => (
          <div key={name} className="flex flex-col gap-1">
            <h3 className="font-medium break-words">{escapeText(name)}</h3>
            <DiffView label={`Changes of ${name}`} before={from.get(name) ?? ''} after={to.get(name) ?? ''} />
          </div>
        ))}
        {(agent.code_bundle_url !== null || other.code_bundle_url !== null) && <CompareCode from={other} to={agent} />}
      </div>
    </Section>
  );
}

/** Maximum size of each bundle in a comparison, since both are decompressed in memory. */
const MAX_COMPARED_BYTES = 32_000_000;
const MAX_DIFF_BYTES = 512 * 1024;

interface ChangedFile {
  readonly path: string;
  readonly before: Uint8Array | undefined;
  readonly after: Uint8Array | undefined;
}

function changedFiles(from: Uint8Array | null, to: Uint8Array | null): ChangedFile[] | undefined {
  const [a, b] = [from, to].map((zip) => (zip === null ? [] : filesOf(zip)));
  const sum = (files: readonly { readonly size: number }[]) => files.reduce((total, { size }) => total + size, 0);
  if (Math.max(sum(a!), sum(b!)) > MAX_COMPARED_BYTES) return undefined;
  const sizes = [a!, b!].map((files) => new Map(files.map(({ path, size }) => [path, size])));
  const paths = [...new Set([...a!, ...b!].map(({ path }) => path))].sort();
  return paths
    .map((path) => ({
      path,
      before: from !== null && sizes[0]!.has(path) ? expand(from, path) : undefined,
      after: to !== null && sizes[1]!.has(path) ? expand(to, path) : undefined,
    }))
    .filter(({ before, after }) => !isSame(before, after));
}

const isSame = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a !== undefined && b !== undefined && a.length === b.length && a.every((byte, index) => byte === b[index]);

function CompareCode({ from, to }: { readonly from: Version; readonly to: Version }) {
  const [before, after] = [useBundle(from), useBundle(to)];
  const error = before.error ?? after.error;
  if (error) return <ErrorBox error={error} title="The code of these versions could not be loaded" />;
  if (before.data === undefined || after.data === undefined) return <Loading />;
  return <ChangedFiles key={`${from.id} ${to.id}`} from={before.data} to={after.data} />;
}

function ChangedFiles({ from, to }: { readonly from: Uint8Array | null; readonly to: Uint8Array | null }) {
  const [found] = useState(() => {
    try {
      return { files: changedFiles(from, to) };
    } catch (error) {
      return { error };
    }
  });
  if (found.error !== undefined) return <ErrorBox error={found.error} title="A bundle could not be read" />;
  if (found.files === undefined) {
    return <p className="text-soft">The code is too large to be compared here; “platform diff” compares it.</p>;
  }
  return (
    <div className="flex flex-col gap-1">
      <h3 className="font-medium">Code</h3>
      {found.files.length === 0 && <p className="text-soft">All files are identical.</p>}
      {found.files.map(({ path, before, after }) => (
        <details key={path}>
          <summary className="break-all">
            <Badge tone={before === undefined ? 'good' : after === undefined ? 'bad' : 'warn'}>
              {before === undefined ? 'New' : after === undefined ? 'Removed' : 'Changed'}
            </Badge>{' '}
            <span className="font-mono text-xs">{escapeText(path)}</span>{' '}
            <span className="text-soft">{bytes((after ?? before)!.length)}</span>
          </summary>
          <div className="mt-1">
            <FileDiff path={path} before={before} after={after} />
          </div>
        </details>
      ))}
    </div>
  );
}

function FileDiff({ path, before, after }: ChangedFile) {
  const [a, b] = [before, after].map((content) => (content === undefined ? '' : textOf(content)));
  const isLarge = Math.max(before?.length ?? 0, after?.length ?? 0) > MAX_DIFF_BYTES;
  if (a === undefined || b === undefined || isLarge) {
    return <p className="text-soft">{isLarge ? 'Too large to show.' : 'Not a text file.'}</p>;
  }
  return <DiffView label={`Changes of ${path}`} before={a} after={b} />;
}

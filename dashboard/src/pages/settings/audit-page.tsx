import { getRouteApi } from '@tanstack/react-router';
import { ScrollText } from 'lucide-react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

const route = getRouteApi('/signed-in/$workspace/settings/audit');

const OUTCOMES = { done: ['good', 'Done'], refused: ['warn', 'Refused'], unknown: ['bad', 'Unknown'] } as const;

/** Formats an operation name: `putSecret` -> `Put secret`. */
const inWords = (operation: string): string => {
  const words = operation.replaceAll(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`);
  return words[0]!.toUpperCase() + words.slice(1);
};

type Entry = AnswerOf<'listAuditEntries'>['entries'][number];

function whoOf({ actor, user, trust }: Entry): string {
  if (actor === 'link') return 'Somebody with a link';
  if (actor !== 'trust') return user?.email ?? user?.id ?? 'The operator';
  const { repository, project_path, ref, run_id, pipeline_id } = trust?.claims ?? {};
  const run = run_id ?? pipeline_id;
  const parts = [repository ?? project_path, ref, run === undefined ? undefined : `run ${run}`];
  return ['CI job', ...parts.filter((part) => part !== undefined)].join(' ');
}

/** Audit log of the workspace, for owners. */
export function AuditPage() {
  const { id: workspace_id, slug } = useWorkspace();
  const { cursor } = route.useSearch();
  const query = { limit: 100, ...(cursor !== undefined && { cursor }) };
  const { data, error, refetch } = useOperation('listAuditEntries', { params: { workspace_id }, query });
  return (
    <SettingsFrame part="audit" description="Who changed what, newest first. Visible to owners.">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Audit log"
          rows={data.entries}
          keyOf={({ id }) => id}
          columns={[
            { title: 'When', cell: ({ created_at }) => <Time at={created_at} /> },
            { title: 'Who', cell: whoOf },
            { title: 'What', cell: ({ operation }) => inWords(operation) },
            {
              title: 'Of',
              cell: ({ target }) => (
                <span className="flex flex-wrap gap-1">
                  {Object.entries(target).map(([name, value]) => (
                    <Code key={name}>{`${name}: ${Array.isArray(value) ? value.join(', ') : String(value)}`}</Code>
                  ))}
                </span>
              ),
              from: 'sm',
            },
            { title: 'From', cell: ({ address }) => address ?? '', from: 'lg' },
            {
              title: 'Outcome',
              cell: ({ outcome }) => <Badge tone={OUTCOMES[outcome][0]}>{OUTCOMES[outcome][1]}</Badge>,
              from: 'md',
            },
          ]}
          empty={
            <Empty icon={ScrollText} title="No changes yet">
              Changes to agents, schedules, services, secrets, keys, members and settings are recorded here.
            </Empty>
          }
        />
      )}
      {data?.next_cursor && (
        <Link to="/$workspace/settings/audit" params={{ workspace: slug }} search={{ cursor: data.next_cursor }}>
          Older entries
        </Link>
      )}
    </SettingsFrame>
  );
}

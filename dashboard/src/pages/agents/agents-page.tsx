import { Bot } from 'lucide-react';
import { useOperation } from '../../api/query.ts';
import { API_URL } from '../../base.ts';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

/** The agents of the workspace, newest version of each. */
export function AgentsPage() {
  const { data, error, refetch } = useOperation('listAgents', { query: { latest: 'true', limit: 100 } });
  useLiveRefresh(['agent'], ['listAgents']);
  return (
    <Page title="Agents">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Agents"
          rows={data}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Name', cell: ({ name }) => name },
            { title: 'Version', cell: ({ version }) => version },
            { title: 'Type', cell: ({ type }) => type, from: 'sm' },
            { title: 'Published', cell: ({ created_at }) => <Time at={created_at} />, from: 'md' },
          ]}
          empty={
            <Empty
              icon={Bot}
              title="No agents yet"
              command={`npx platform init hello\nnpx platform publish hello --api-url ${API_URL}`}
            >
              An agent is a prompt, a program or an LLM with tools. Publish one from a folder:
            </Empty>
          }
        />
      )}
    </Page>
  );
}

import { useQuery } from '@tanstack/react-query';
import { Database } from 'lucide-react';
import { type AnswerOf, sendOperation } from '../../api/client.ts';
import { keyOf } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { ApiError } from '../../api-error.ts';
import { COMMAND } from '../../base.ts';
import { bytes } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { NewDocument } from './new-document.tsx';

/** Namespaces with documents of agents and people. */
export function StoragePage() {
  const { id: workspaceId, slug } = useWorkspace();
  const { data, error, refetch } = useQuery({
    queryKey: keyOf('listNamespaces', {}, workspaceId),
    queryFn: async ({ signal }) => {
      const response = await sendOperation('listNamespaces', {}, { workspaceId, signal });
      const body = await response.json();
      if (!response.ok) throw new ApiError(response.status, body, response.headers);
      // Storage usage is only in response headers.
      const used = Number(response.headers.get('x-storage-used') ?? 0);
      const limit = response.headers.get('x-storage-limit');
      return { ...(body as AnswerOf<'listNamespaces'>), used, limit: limit === null ? undefined : Number(limit) };
    },
  });
  return (
    <Page
      title="Storage"
      description={data && `${bytes(data.used)} ${data.limit === undefined ? 'used' : `of ${bytes(data.limit)} used`}`}
      actions={<NewDocument />}
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Namespaces"
          rows={data.namespaces}
          keyOf={(namespace) => namespace}
          linkOf={(namespace) => ({ to: '/$workspace/storage/$namespace', params: { workspace: slug, namespace } })}
          columns={[{ title: 'Namespace', cell: (namespace) => <span className="font-mono">{namespace}</span> }]}
          empty={
            <Empty
              icon={Database}
              title="No documents yet"
              command={`${COMMAND} storage put notes today '{"text": "rain"}'`}
            >
              Agents store JSON documents here between runs, by namespace and key. Create one above, or from a terminal:
            </Empty>
          }
        />
      )}
    </Page>
  );
}

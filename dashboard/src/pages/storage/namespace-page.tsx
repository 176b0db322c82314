import { useInfiniteQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { Database, Search, Trash2 } from 'lucide-react';
import { useState } from 'react';
import { call } from '../../api/client.ts';
import { keyOf, useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Table } from '../../ui/data/table.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { NewDocument } from './new-document.tsx';

const route = getRouteApi('/signed-in/$workspace/storage/$namespace');
const PAGE = 200;

/** Keys of a namespace in order. */
export function NamespacePage() {
  const { id: workspaceId, slug } = useWorkspace();
  const { namespace } = route.useParams();
  const { q = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const [isDeleting, setDeleting] = useState(false);
  const remove = useAction('deleteNamespace', { stale: ['listNamespaces', 'listDocuments'], silent: true });
  const { data, error, refetch, fetchNextPage, hasNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: keyOf('listDocuments', { namespace, q }, workspaceId),
    queryFn: ({ pageParam: cursor, signal }) =>
      call(
        'listDocuments',
        { params: { namespace }, query: { limit: PAGE, prefix: q, cursor } },
        { workspaceId, signal },
      ),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ cursor }) => cursor ?? undefined,
    placeholderData: (before) => before,
  });
  const keys = data?.pages.flatMap((page) => page.keys) ?? [];
  return (
    <Page
      title={namespace}
      description={
        <Link to="/$workspace/storage" params={{ workspace: slug }}>
          All namespaces
        </Link>
      }
      actions={
        <>
          <NewDocument namespace={namespace} />
          {keys.length > 0 && (
            <Button variant="danger" icon={Trash2} onPress={() => setDeleting(true)}>
              Delete namespace
            </Button>
          )}
        </>
      }
    >
      <div className="w-64 max-w-full" data-filter>
        <TextField
          label="Filter keys by prefix"
          isLabelHidden
          placeholder="Key prefix"
          icon={<Search size={14} aria-hidden />}
          value={q}
          onChange={(text) => void navigate({ search: { q: text || undefined }, replace: true })}
        />
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Keys"
          rows={keys}
          keyOf={(key) => key}
          linkOf={(key) => ({
            to: '/$workspace/storage/$namespace/$key',
            params: { workspace: slug, namespace, key },
          })}
          columns={[{ title: 'Key', cell: (key) => <span className="font-mono">{key}</span> }]}
          empty={
            q === '' ? (
              <Empty
                icon={Database}
                title="This namespace is empty"
                command={`${COMMAND} storage put ${namespace} today '{"text": "rain"}'`}
              >
                A namespace exists while it contains documents. Create one above, or from a terminal:
              </Empty>
            ) : (
              <NoMatch icon={Database} title="No key has this prefix" />
            )
          }
        />
      )}
      {hasNextPage && (
        <div>
          <Button isPending={isFetchingNextPage} onPress={() => void fetchNextPage()}>
            Show more keys
          </Button>
        </div>
      )}
      <ConfirmDialog
        title={`Delete ${namespace}?`}
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Delete namespace"
        typed={namespace}
        onConfirm={async () => {
          await remove.mutateAsync({ params: { namespace } });
          void navigate({ to: '/$workspace/storage', params: { workspace: slug } });
        }}
      >
        All of its documents are deleted, including those not shown here. This cannot be undone.
      </ConfirmDialog>
    </Page>
  );
}

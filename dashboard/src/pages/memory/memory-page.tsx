import { getRouteApi } from '@tanstack/react-router';
import { Eraser, Notebook, Search } from 'lucide-react';
import { useState } from 'react';
import { useAction, useAllRows } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { bytes } from '../../ui/data/numbers.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { NewMemory } from './new-memory.tsx';

const route = getRouteApi('/signed-in/$workspace/memory');
const PAGE = 200;
/** Choice of the workspace's own memory. No tenant has an empty id. */
const WORKSPACE = '';

/** What agents remember, for the workspace or for one of its tenants. */
export function MemoryPage() {
  const { id: workspace_id, slug } = useWorkspace();
  const { q = '', tenant } = route.useSearch();
  const navigate = route.useNavigate();
  const [isErasing, setErasing] = useState(false);
  const erase = useAction('eraseMemory', { stale: ['listMemory', 'listMemoryTenants'], silent: true });
  const params = { workspace_id };
  const tenants = useAllRows('listMemoryTenants', {
    args: (cursor) => ({ params, query: { limit: PAGE, cursor } }),
    rowsOf: (page) => page.tenants,
    nextOf: ({ next_cursor }) => next_cursor ?? undefined,
  });
  const { rows, isWhole, error, refetch } = useAllRows('listMemory', {
    args: (cursor) => ({ params, query: { tenant_id: tenant, prefix: q, limit: PAGE, cursor } }),
    rowsOf: (page) => page.documents,
    nextOf: ({ next_cursor }) => next_cursor ?? undefined,
  });
  const ids = [
    ...new Set([...(tenant === undefined ? [] : [tenant]), ...(tenants.rows ?? []).map((each) => each.tenant_id)]),
  ];
  const whose = tenant === undefined ? 'the workspace' : `the tenant ${escapeText(tenant)}`;
  return (
    <Page
      title="Memory"
      description="What loops remember from run to run"
      actions={
        <>
          <NewMemory tenant={tenant} />
          {(rows?.length ?? 0) > 0 && (
            <Button variant="danger" icon={Eraser} onPress={() => setErasing(true)}>
              Erase memory
            </Button>
          )}
        </>
      }
    >
      <div className="flex flex-wrap gap-3" data-filter>
        <div className="w-64 max-w-full">
          <TextField
            label="Filter names by prefix"
            isLabelHidden
            placeholder="Name prefix"
            icon={<Search size={14} aria-hidden />}
            value={q}
            onChange={(text) =>
              void navigate({ search: (before) => ({ ...before, q: text || undefined }), replace: true })
            }
          />
        </div>
        {ids.length > 0 && (
          <div className="w-64 max-w-full">
            <Select
              label="Whose memory"
              isLabelHidden
              value={tenant ?? WORKSPACE}
              onChange={(id) => void navigate({ search: { tenant: id || undefined } })}
              choices={[
                { id: WORKSPACE, label: 'The workspace' },
                ...ids.map((id) => ({ id, label: `Tenant ${escapeText(id)}` })),
              ]}
            />
          </div>
        )}
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {tenants.error && <ErrorBox error={tenants.error} onRetry={() => void tenants.refetch()} />}
      {!rows && !error && <Loading />}
      {rows && (
        <Table
          label="Documents"
          rows={rows}
          keyOf={({ name }) => name}
          linkOf={({ name }) => ({
            to: '/$workspace/memory/$name',
            params: { workspace: slug, name },
            search: { tenant },
          })}
          columns={[
            { title: 'Name', cell: ({ name }) => <span className="font-mono">{name}</span> },
            { title: 'Version', cell: ({ version }) => version },
            { title: 'Size', cell: ({ size_bytes }) => bytes(size_bytes) },
            { title: 'Written', cell: ({ updated_at }) => <Time at={updated_at} /> },
            { title: 'By', cell: ({ updated_by }) => escapeText(updated_by) },
          ]}
          empty={
            q === '' ? (
              <Empty
                icon={Notebook}
                title="Nothing remembered yet"
                command={`${COMMAND} memory set notes.md "It rained."`}
              >
                Loops with memory tools leave documents here for later runs. Create one above, or from a terminal:
              </Empty>
            ) : (
              <NoMatch icon={Notebook} title="No name has this prefix" />
            )
          }
        />
      )}
      {rows && !isWhole && !error && <Loading />}
      <ConfirmDialog
        title={`Erase the memory of ${whose}?`}
        isOpen={isErasing}
        onClose={() => setErasing(false)}
        action="Erase memory"
        typed={tenant ?? slug}
        onConfirm={async () => {
          await erase.mutateAsync({ params, query: { tenant_id: tenant } });
          void navigate({ search: {} });
        }}
      >
        All of its documents are deleted. This cannot be undone.
      </ConfirmDialog>
    </Page>
  );
}

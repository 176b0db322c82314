import { keepPreviousData } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { LibraryBig, Search } from 'lucide-react';
import { useEffect, useState } from 'react';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { LinkButton } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';

const route = getRouteApi('/signed-in/$workspace/catalog');
const TYPES = ['prompt', 'tool', 'agent', 'skill'];
const PAGE = 50;
const TYPING_MS = 250;

/** Public agents of all workspaces. */
export function CatalogPage() {
  const { slug } = useWorkspace();
  const { q = '', type = '', page = '1' } = route.useSearch();
  const navigate = route.useNavigate();
  const number = Math.max(1, Math.trunc(Number(page)) || 1);
  const search = useSettled(q.trim().slice(0, 200));
  const { data, error, refetch } = useOperation(
    'listPublicAgents',
    {
      query: {
        // The extra row tells whether there is another page.
        limit: PAGE + 1,
        offset: (number - 1) * PAGE,
        ...(search !== '' && { search }),
        ...(type !== '' && { type }),
      },
    },
    { placeholderData: keepPreviousData },
  );
  const change = (next: { q?: string; type?: string }) =>
    void navigate({ search: (now) => ({ ...now, page: undefined, ...next }), replace: true });
  const isFiltered = q !== '' || type !== '';
  return (
    <Page title="Catalog" description="Public agents of all workspaces. Try one, call it, or fork it.">
      <div className="flex flex-wrap gap-2" data-filter>
        <div className="w-64 max-w-full">
          <TextField
            label="Search the catalog"
            isLabelHidden
            placeholder="Name, description or tag"
            icon={<Search size={14} aria-hidden />}
            value={q}
            onChange={(next) => change({ q: next })}
          />
        </div>
        <div className="w-36">
          <Select
            label="Type"
            isLabelHidden
            value={type || 'all'}
            onChange={(next) => change({ type: next === 'all' ? '' : next })}
            choices={[{ id: 'all', label: 'All types' }, ...TYPES.map((each) => ({ id: each, label: each }))]}
          />
        </div>
      </div>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Public agents"
          rows={data.slice(0, PAGE)}
          keyOf={({ id }) => id}
          linkOf={({ org_slug, name }) => ({
            to: '/$workspace/catalog/$org/$agent',
            params: { workspace: slug, org: org_slug, agent: name },
          })}
          columns={[
            {
              title: 'Agent',
              cell: ({ org_slug, name }) => <span className="break-all">{`${org_slug}/${name}`}</span>,
            },
            {
              title: 'Description',
              cell: ({ description }) => (
                <span className="line-clamp-2 break-words text-soft">{escapeText(description ?? '')}</span>
              ),
              from: 'sm',
            },
            {
              title: 'Tags',
              cell: ({ tags }) => (
                <span className="flex flex-wrap gap-1">
                  {tags.slice(0, 4).map((tag) => (
                    <Badge key={tag}>{escapeText(tag)}</Badge>
                  ))}
                </span>
              ),
              from: 'lg',
            },
            { title: 'Type', cell: (agent) => <Badge>{agent.type}</Badge> },
            { title: 'Version', cell: ({ version }) => version, from: 'md' },
            { title: 'Published', cell: ({ created_at }) => <Time at={created_at} />, from: 'md' },
          ]}
          empty={
            isFiltered || number > 1 ? (
              <NoMatch icon={Search} title="No public agent matches" />
            ) : (
              <Empty icon={LibraryBig} title="No public agents yet" command={`${COMMAND} update NAME --public`}>
                Public agents of all workspaces are listed here. Make one of yours public in its settings, or from a
                terminal:
              </Empty>
            )
          }
        />
      )}
      {data && (number > 1 || data.length > PAGE) && (
        <nav aria-label="Pages of the catalog" className="flex gap-2">
          {number > 1 && (
            <LinkButton to="." search={(now: object) => ({ ...now, page: String(number - 1) })}>
              Newer
            </LinkButton>
          )}
          {data.length > PAGE && (
            <LinkButton to="." search={(now: object) => ({ ...now, page: String(number + 1) })}>
              Older
            </LinkButton>
          )}
        </nav>
      )}
    </Page>
  );
}

/** Returns the text after a pause in typing. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return settled;
}

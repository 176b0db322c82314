import { getRouteApi } from '@tanstack/react-router';
import { useWorkspace } from '../../api/session.ts';
import { Select } from '../../ui/field.tsx';
import { Link } from '../../ui/link.tsx';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { AuthorUsage } from './author-usage.tsx';
import { OwnUsage } from './own-usage.tsx';

const route = getRouteApi('/signed-in/$workspace/usage');

const RANGES = [1, 7, 30, 90, 365];

/** Usage by the workspace, or by callers of its agents, over a range of days. */
export function UsagePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { slug } = useWorkspace();
  const days = RANGES.find((each) => String(each) === search.days) ?? 30;
  const isAuthor = search.view === 'author';
  return (
    <Page
      title="Usage"
      description={
        isAuthor
          ? 'Calls of other workspaces to your agents. Days are in UTC.'
          : 'Calls made by this workspace. Days are in UTC.'
      }
      actions={
        <div className="w-36">
          <Select
            label="Range"
            isLabelHidden
            value={String(days)}
            onChange={(next) => void navigate({ search: (now) => ({ ...now, days: next }) })}
            choices={RANGES.map((each) => ({ id: String(each), label: each === 1 ? 'Today' : `${each} days` }))}
          />
        </div>
      }
      tabs={
        <Tabs
          label="View"
          tabs={[
            { label: 'This workspace', search: { days: search.days }, isCurrent: !isAuthor },
            {
              label: 'Your agents in other workspaces',
              search: { days: search.days, view: 'author' },
              isCurrent: isAuthor,
            },
          ]}
        />
      }
    >
      {!isAuthor && search.tenant !== undefined && (
        <p>
          Only tenant <strong>{search.tenant}</strong>.{' '}
          <Link
            to="/$workspace/usage"
            params={{ workspace: slug }}
            search={{ days: search.days }}
            className="underline"
          >
            Show all
          </Link>
        </p>
      )}
      {isAuthor ? <AuthorUsage days={days} /> : <OwnUsage days={days} tenant={search.tenant} />}
    </Page>
  );
}

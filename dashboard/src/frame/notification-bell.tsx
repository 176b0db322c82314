import { useQuery } from '@tanstack/react-query';
import { Activity, Bell, CalendarClock, type LucideIcon, PiggyBank, Server } from 'lucide-react';
import { useEffect, useRef, useState } from 'react';
import { isText, useBrowserList } from '../api/browser-list.ts';
import { call } from '../api/client.ts';
import { useWorkspace } from '../api/session.ts';
import { IconButton } from '../ui/button.tsx';
import { classes } from '../ui/classes.ts';
import { Time } from '../ui/data/time.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { Empty } from '../ui/empty.tsx';
import { ErrorBox } from '../ui/error-box.tsx';
import { Checkbox } from '../ui/field.tsx';
import { Link } from '../ui/link.tsx';
import { Loading } from '../ui/loading.tsx';
import { escapeText } from '../ui/text/escape-text.ts';
import { useIsAfterPage } from './after-page.ts';
import { notificationsOf, type Notification as Problem } from './notifications.ts';

const EVERY_MS = 120_000;
const FRESH_MS = 10_000;
/** Maximum number of notifications that the browser remembers as read. */
const MAX_READ = 200;

const ICONS: Readonly<Record<Problem['kind'], LucideIcon>> = {
  run: Activity,
  schedule: CalendarClock,
  service: Server,
  budget: PiggyBank,
};

/** Problems of the workspace: a bell with the number of unread ones, which opens their list. */
export function NotificationBell() {
  const [isWanted, setWanted] = useBrowserList('notifications-of-browser', isText);
  const hasBrowser = isWanted.length > 0 && 'Notification' in window && Notification.permission === 'granted';
  const { data, error, refetch, isStale } = useProblems(hasBrowser);
  const [read, setRead] = useBrowserList('notifications-read', isText);
  const problems = data ?? [];
  const unread = problems.filter(({ id }) => !read.includes(id)).map(({ id }) => id);
  useBrowserNotifications(data, hasBrowser);
  /** Unread ones at the time the list was opened; undefined while it is closed. */
  const [shownAsNew, setShownAsNew] = useState<readonly string[]>();
  const open = () => {
    setShownAsNew(unread);
    if (unread.length > 0) setRead([...read, ...unread].slice(-MAX_READ));
    if (isStale) void refetch();
  };
  const close = () => setShownAsNew(undefined);
  const label = unread.length === 0 ? 'Notifications' : `Notifications, ${unread.length} unread`;
  return (
    <div className="relative">
      <IconButton icon={Bell} label={label} onPress={open} />
      {unread.length > 0 && (
        <span
          aria-hidden
          className="pointer-events-none absolute top-0.5 right-0.5 flex h-4 min-w-4 items-center justify-center rounded-full bg-bad px-1 text-[0.625rem] leading-none font-semibold text-ground"
        >
          {unread.length > 9 ? '9+' : unread.length}
        </span>
      )}
      <Dialog title="Notifications" isOpen={shownAsNew !== undefined} onClose={close}>
        {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
        {!data && !error && <Loading />}
        {data?.length === 0 && (
          <Empty icon={Bell} title="No problems">
            You are notified here when an agent fails repeatedly, a schedule is disabled, a service crashes, or a budget
            reaches a threshold.
          </Empty>
        )}
        {problems.length > 0 && (
          <ul aria-label="Notifications" className="-mx-2 flex max-h-[50vh] flex-col overflow-y-auto">
            {problems.map((problem) => (
              <Row
                key={problem.id}
                problem={problem}
                isNew={shownAsNew?.includes(problem.id) ?? false}
                onOpen={close}
              />
            ))}
          </ul>
        )}
        {'Notification' in window && Notification.permission !== 'denied' && (
          <Checkbox
            value={hasBrowser}
            onChange={async (isOn) => {
              const isAllowed = isOn && (await Notification.requestPermission()) === 'granted';
              setWanted(isAllowed ? ['on'] : []);
            }}
          >
            Also notify me through the browser when this tab is in the background
          </Checkbox>
        )}
      </Dialog>
    </div>
  );
}

function Row({
  problem: { kind, title, detail, at, path, search },
  isNew,
  onOpen,
}: {
  readonly problem: Problem;
  readonly isNew: boolean;
  readonly onOpen: () => void;
}) {
  const { slug } = useWorkspace();
  const Icon = ICONS[kind];
  return (
    <li className="relative flex gap-3 rounded-md px-2 py-2 hover:bg-hover">
      <Icon size={16} aria-hidden className="mt-0.5 shrink-0 text-bad" />
      <div className="flex min-w-0 grow flex-col">
        <Link
          to={`/$workspace/${path}` as '/$workspace'}
          params={{ workspace: slug }}
          search={search as object}
          onClick={onOpen}
          className={classes('after:absolute after:inset-0', isNew && 'font-semibold')}
        >
          {isNew && <span className="sr-only">Unread: </span>}
          {escapeText(title)}
        </Link>
        <span className="line-clamp-2 text-xs text-soft">{escapeText(detail)}</span>
        <span className="text-xs text-soft">
          <Time at={at} />
        </span>
      </div>
    </li>
  );
}

/** Reads the problems shortly after the page was opened, and every two minutes while it is visible. */
function useProblems(isInBackground: boolean) {
  const { id: workspace_id } = useWorkspace();
  const isReady = useIsAfterPage();
  return useQuery({
    // A key of its own: events refetch the lists of pages each second.
    queryKey: ['notifications', workspace_id],
    enabled: isReady,
    staleTime: FRESH_MS,
    refetchInterval: EVERY_MS,
    refetchIntervalInBackground: isInBackground,
    queryFn: async ({ signal }) => {
      const params = { workspace_id };
      const options = { workspaceId: workspace_id, signal };
      const answers = await Promise.allSettled([
        call('listRuns', { params, query: { limit: 100, top_level: 'true' } }, options),
        call('listSchedules', { params, query: { limit: 200 } }, options),
        call('listServices', { params, query: { limit: 100 } }, options),
        call('listBudgetAlerts', { params, query: { limit: 20 } }, options),
      ]);
      const [runs, schedules, services, alerts] = answers;
      // A key may be limited to a part; the rest is still of use.
      if (answers.every(({ status }) => status === 'rejected')) throw (runs as PromiseRejectedResult).reason;
      return notificationsOf(
        {
          runs: runs.status === 'fulfilled' ? runs.value.runs : [],
          schedules: schedules.status === 'fulfilled' ? schedules.value.schedules : [],
          services: services.status === 'fulfilled' ? services.value.services : [],
          alerts: alerts.status === 'fulfilled' ? alerts.value.alerts : [],
        },
        Date.now(),
      );
    },
  });
}

/** Shows new problems as notifications of the browser while the tab is in the background. */
function useBrowserNotifications(problems: readonly Problem[] | undefined, isOn: boolean): void {
  const known = useRef<ReadonlySet<string>>(undefined);
  useEffect(() => {
    if (problems === undefined) return;
    const before = known.current;
    known.current = new Set(problems.map(({ id }) => id));
    if (!isOn || before === undefined || document.visibilityState === 'visible') return;
    for (const { id, title, detail } of problems) {
      if (!before.has(id)) new Notification(escapeText(title), { body: escapeText(detail), tag: id });
    }
  }, [problems, isOn]);
}

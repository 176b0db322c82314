import { useQueries } from '@tanstack/react-query';
import { ChevronLeft, ChevronRight } from 'lucide-react';
import { type AnswerOf, call } from '../../api/client.ts';
import { keyOf, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Section } from '../../ui/page.tsx';
import type { Schedule } from './schedule-state.ts';
import { Slots } from './slots.tsx';
import { type Entry, entryOfEvent, entryOfRun, entryOfSlot, midnight } from './week-entries.ts';

/** Maximum number of schedules in the calendar; each needs two requests. */
const MAX_SCHEDULES = 20;
/** Maximum page size of the API. */
const PAGE = 200;
const DAY = new Intl.DateTimeFormat('en-GB', { weekday: 'short', day: 'numeric', month: 'short' });
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

/** Returns local midnight on Monday of the week of a date such as `2026-11-23`; defaults to today. */
function mondayOf(date: string | undefined): Date {
  const given = new Date(`${date}T00:00:00`);
  const day = midnight(Number.isNaN(given.getTime()) ? new Date() : given);
  return daysAfter(day, -((day.getDay() + 6) % 7));
}
/** Adds calendar days rather than hours, because days have 23 to 25 hours. */
const daysAfter = (day: Date, days: number): Date => new Date(day.getFullYear(), day.getMonth(), day.getDate() + days);
const dateOf = (day: Date): string =>
  `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, '0')}-${String(day.getDate()).padStart(2, '0')}`;

/** Completed, missed, skipped and upcoming slots of a week, by schedule and local day. */
export function WeekCalendar({
  schedules,
  week,
  onWeek,
}: {
  readonly schedules: readonly Schedule[];
  /** A date in the week. @default - today */
  readonly week: string | undefined;
  readonly onWeek: (week: string | undefined) => void;
}) {
  const { slug } = useWorkspace();
  const monday = mondayOf(week);
  const days = [0, 1, 2, 3, 4, 5, 6].map((each) => daysAfter(monday, each));
  const shown = schedules.slice(0, MAX_SCHEDULES);
  const { entries, error, isCut } = useEntries(shown, monday, daysAfter(monday, 7));
  const today = midnight(new Date()).getTime();
  return (
    <Section
      title="Week"
      description={`${DAY.format(monday)} to ${DAY.format(days[6])}, in ${ZONE}`}
      actions={
        <div className="flex items-center gap-1">
          <IconButton icon={ChevronLeft} label="Previous week" onPress={() => onWeek(dateOf(daysAfter(monday, -7)))} />
          <Button variant="quiet" onPress={() => onWeek(undefined)}>
            This week
          </Button>
          <IconButton icon={ChevronRight} label="Next week" onPress={() => onWeek(dateOf(daysAfter(monday, 7)))} />
        </div>
      }
      isFramed={false}
    >
      {error && <ErrorBox error={error} />}
      <section
        aria-label="Calendar"
        // A scrollable area must be reachable by keyboard.
        // biome-ignore lint/a11y/noNoninteractiveTabindex: see above.
        tabIndex={0}
        className="overflow-x-auto rounded-lg border border-line bg-raised"
      >
        <table className="w-full min-w-200 table-fixed border-collapse text-left">
          <caption className="sr-only">Runs of the week, by schedule and day</caption>
          <thead>
            <tr className="border-b border-line bg-panel text-xs text-soft">
              <th scope="col" className="sticky left-0 w-32 bg-panel px-3 py-1.5 font-medium">
                Schedule
              </th>
              {days.map((day) => (
                <th
                  key={day.getTime()}
                  scope="col"
                  aria-current={day.getTime() === today ? 'date' : undefined}
                  className={`border-l border-line px-2 py-1.5 font-medium ${day.getTime() === today ? 'bg-selected text-text' : ''}`}
                >
                  {DAY.format(day)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ id, agent_name }) => (
              <tr key={id} className="border-b border-line last:border-0">
                <th scope="row" className="sticky left-0 bg-raised px-3 py-2 align-top font-medium">
                  <Link to="/$workspace/schedules/$schedule" params={{ workspace: slug, schedule: id }}>
                    {agent_name}
                  </Link>
                </th>
                {days.map((day) => (
                  <td key={day.getTime()} className="border-l border-line p-1.5 align-top">
                    <Slots entries={entries.filter((each) => each.schedule === id && each.day === day.getTime())} />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {(isCut || schedules.length > MAX_SCHEDULES) && (
        <p className="pt-1.5 text-xs text-soft">
          {schedules.length > MAX_SCHEDULES &&
            `The first ${MAX_SCHEDULES} of ${schedules.length} schedules: filter the list to see others. `}
          {isCut && `Only the latest ${PAGE} runs and events of each schedule, and the first upcoming runs, are shown.`}
        </p>
      )}
    </Section>
  );
}

/** Reads all entries of some schedules between two times. */
function useEntries(schedules: readonly Schedule[], from: Date, to: Date) {
  const { id: workspace_id } = useWorkspace();
  const isPast = to.getTime() <= Date.now();
  const isFuture = from.getTime() > Date.now();
  const window = { from: from.toISOString(), to: to.toISOString() };
  const upcoming = useOperation('listUpcoming', { params: { workspace_id }, query: window }, { enabled: !isPast });
  const read = <Name extends 'listRuns' | 'listScheduleEvents'>(
    name: Name,
    args: Parameters<typeof call<Name>>[1],
  ) => ({
    queryKey: keyOf(name, args, workspace_id),
    queryFn: ({ signal }: { readonly signal: AbortSignal }) => call(name, args, { workspaceId: workspace_id, signal }),
    enabled: !isFuture,
  });
  const runs = useQueries({
    queries: schedules.map(({ id: schedule_id }) =>
      read('listRuns', { params: { workspace_id }, query: { ...window, schedule_id, limit: PAGE } }),
    ),
  });
  const events = useQueries({
    queries: schedules.map(({ id: schedule_id }) =>
      read('listScheduleEvents', { params: { workspace_id, schedule_id }, query: { limit: PAGE } }),
    ),
  });
  const ids = new Set(schedules.map(({ id }) => id));
  const eventsOf = (index: number): AnswerOf<'listScheduleEvents'>['events'] => events[index]?.data?.events ?? [];
  const entries: Entry[] = [
    ...schedules.flatMap(({ id }, index) => [
      ...(runs[index]?.data?.runs ?? []).map((run) => entryOfRun(id, run)),
      ...eventsOf(index).flatMap((event) => entryOfEvent(id, event) ?? []),
    ]),
    ...(isPast ? [] : (upcoming.data?.slots ?? [])).filter((slot) => ids.has(slot.schedule_id)).map(entryOfSlot),
  ];
  const isCut =
    (!isPast && upcoming.data?.is_cut === true) ||
    runs.some(({ data }) => data?.next_cursor != null) ||
    schedules.some((_, index) => {
      const list = eventsOf(index);
      return list.length === PAGE && Date.parse(list.at(-1)!.created_at) > from.getTime();
    });
  const error = [upcoming, ...runs, ...events].find((each) => each.error)?.error;
  return { entries, isCut, error };
}

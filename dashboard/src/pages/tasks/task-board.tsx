import { ArrowLeftRight } from 'lucide-react';
import { type KeyboardEvent, useEffect, useRef, useState } from 'react';
import type { ArgumentsOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button, IconButton } from '../../ui/button.tsx';
import { classes } from '../../ui/classes.ts';
import { count } from '../../ui/data/numbers.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Menu } from '../../ui/menu.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { STATUS_LABELS, STATUSES, type Task, type TaskStatus } from './task.ts';
import { Creator, DueDate, PriorityBadge } from './task-parts.tsx';

const FIRST = 50;
/** Maximum page size of the API. */
const MAX_LIMIT = 200;
const DRAGGED = 'application/x-task';

interface BoardProps {
  readonly filter: Omit<NonNullable<ArgumentsOf<'listWorkspaceTasks'>['query']>, 'status' | 'limit'>;
  readonly isHidden: (task: Task) => boolean;
  readonly onMove: (task: Pick<Task, 'id' | 'status'>, to: TaskStatus) => Promise<unknown>;
}

/** Tasks by status. Tasks can be moved by drag and drop, a menu, or Shift with an arrow key. */
export function TaskBoard(props: BoardProps) {
  /** Task moved by keyboard; it gets the focus in its new column. */
  const [moved, setMoved] = useState<string>();
  return (
    <div className="grid grid-cols-[repeat(4,minmax(15rem,1fr))] items-start gap-3 overflow-x-auto pb-2 max-md:grid-cols-1">
      {STATUSES.map((status) => (
        <BoardColumn key={status} status={status} moved={moved} onMoved={setMoved} {...props} />
      ))}
    </div>
  );
}

function BoardColumn({
  status,
  filter,
  isHidden,
  onMove,
  moved,
  onMoved,
}: BoardProps & {
  readonly status: TaskStatus;
  readonly moved: string | undefined;
  readonly onMoved: (id: string | undefined) => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const [limit, setLimit] = useState(FIRST);
  const [isOver, setOver] = useState(false);
  // Only open tasks are overdue.
  const isOff = filter.overdue === 'true' && status !== 'open';
  const { data, error, refetch } = useOperation(
    'listWorkspaceTasks',
    { params: { workspace_id }, query: { ...filter, status, limit } },
    { enabled: !isOff, placeholderData: (before) => before },
  );
  const tasks = isOff ? [] : (data?.tasks ?? []).filter((task) => !isHidden(task));
  const total = isOff ? 0 : (data?.total ?? 0);
  return (
    <section
      aria-label={STATUS_LABELS[status]}
      onDragOver={(event) => {
        if (!event.dataTransfer.types.includes(DRAGGED)) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const task = JSON.parse(event.dataTransfer.getData(DRAGGED)) as Pick<Task, 'id' | 'status'>;
        if (task.status !== status) void onMove(task, status);
      }}
      className={classes(
        'flex min-w-0 flex-col gap-2 rounded-lg border bg-panel p-2',
        isOver ? 'border-accent' : 'border-line',
      )}
    >
      <h2 className="flex items-center gap-2 px-1 text-base font-semibold">
        {STATUS_LABELS[status]}
        <span className="text-xs font-normal text-soft">{count(total)}</span>
      </h2>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && !isOff && <Loading lines={2} />}
      {(data || isOff) && tasks.length === 0 && <p className="px-1 py-2 text-soft">No tasks</p>}
      <ul className="flex flex-col gap-2">
        {tasks.map((task) => (
          <Card
            key={task.id}
            task={task}
            isMoved={task.id === moved}
            onMove={async (to, isByKey) => {
              onMoved(isByKey ? task.id : undefined);
              await onMove(task, to);
            }}
          />
        ))}
      </ul>
      {total > limit && limit < MAX_LIMIT && (
        <Button variant="quiet" onPress={() => setLimit(MAX_LIMIT)}>
          Show more of {count(total)}
        </Button>
      )}
      {total > MAX_LIMIT && limit === MAX_LIMIT && <p className="px-1 text-soft">The list view shows the rest.</p>}
    </section>
  );
}

function Card({
  task,
  isMoved,
  onMove,
}: {
  readonly task: Task;
  readonly isMoved: boolean;
  readonly onMove: (to: TaskStatus, isByKey: boolean) => Promise<unknown>;
}) {
  const place = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isMoved) place.current?.querySelector('a')?.focus();
  }, [isMoved]);
  const press = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!event.shiftKey || step === undefined) return;
    const to = STATUSES[STATUSES.indexOf(task.status) + step];
    if (to === undefined) return;
    event.preventDefault();
    void onMove(to, true);
  };
  return (
    <li
      ref={place}
      data-row=""
      draggable
      onDragStart={(event) => event.dataTransfer.setData(DRAGGED, JSON.stringify({ id: task.id, status: task.status }))}
      onKeyDown={press}
      className="relative flex flex-col gap-1.5 rounded-md border border-line bg-raised p-2 focus-within:bg-hover hover:bg-hover"
    >
      <div className="flex items-start gap-1">
        <Link
          to="."
          search={((now: object) => ({ ...now, task: task.id })) as never}
          aria-keyshortcuts="Shift+ArrowLeft Shift+ArrowRight"
          className="line-clamp-3 min-w-0 grow font-medium text-text! after:absolute after:inset-0"
          draggable={false}
        >
          {escapeText(task.title)}
        </Link>
        <div className="relative z-10 -my-1 -mr-1">
          <Menu
            label="Move to"
            entries={STATUSES.filter((each) => each !== task.status).map((each) => ({
              id: each,
              label: STATUS_LABELS[each],
              run: () => void onMove(each, true),
            }))}
          >
            <IconButton icon={ArrowLeftRight} label={`Move ${escapeText(task.title).slice(0, 80)}`} />
          </Menu>
        </div>
      </div>
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1 text-xs">
        {task.priority !== 'normal' && <PriorityBadge value={task.priority} />}
        <DueDate task={task} />
        {task.project !== null && <span className="text-soft">{escapeText(task.project)}</span>}
        <Creator name={task.created_by} />
      </div>
    </li>
  );
}

import { getRouteApi } from '@tanstack/react-router';
import { ListTodo, Plus } from 'lucide-react';
import { useState } from 'react';
import { useDeleteLater } from '../../api/delete-later.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { LiveBadge } from '../../live/live-badge.tsx';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Button } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Empty, NoMatch } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, Select, TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';
import { PRIORITIES, type Priority, STATUS_LABELS, STATUSES, type Task, type TaskStatus } from './task.ts';
import { TaskBoard } from './task-board.tsx';
import { TaskDialog } from './task-dialog.tsx';
import { Creator, DueDate, PriorityBadge } from './task-parts.tsx';

const route = getRouteApi('/signed-in/$workspace/tasks');
const PAGE = 100;

/** Tasks of the workspace, as a board by status or a list. */
export function TasksPage() {
  const { id: workspace_id } = useWorkspace();
  const given = route.useSearch();
  const navigate = route.useNavigate();
  const change = (next: Partial<typeof given>) =>
    void navigate({ search: (now) => ({ ...now, page: undefined, ...next }), replace: true });
  const [isPaused, setPaused] = useState(false);
  const live = useLiveRefresh(['task'], ['listWorkspaceTasks', 'getTask'], { isPaused });
  const update = useAction('updateTask', { stale: ['listWorkspaceTasks', 'getTask'] });
  const later = useDeleteLater('deleteTask', ['listWorkspaceTasks']);
  const filter = {
    project: given.project,
    priority: PRIORITIES.find((each) => each === given.priority) as Priority | undefined,
    overdue: given.overdue === undefined ? undefined : ('true' as const),
  };
  const all = useOperation('listWorkspaceTasks', { params: { workspace_id }, query: { limit: 1 } });
  const move = async ({ id, status }: Pick<Task, 'id' | 'status'>, to: TaskStatus) => {
    const set = (next: TaskStatus) => update.mutateAsync({ params: { task_id: id }, body: { status: next } });
    await set(to).then(
      () =>
        toast({
          tone: 'good',
          text: `The task is ${STATUS_LABELS[to].toLowerCase()}.`,
          action: { label: 'Undo', run: () => void set(status).catch(() => {}) },
        }),
      () => {},
    );
  };
  const open = (task: string | undefined) => void navigate({ search: (now) => ({ ...now, task }) });
  useKeys({ c: () => open('new') });
  const isList = given.view === 'list';
  return (
    <Page
      title="Tasks"
      isWide={!isList}
      actions={
        <>
          <LiveBadge state={live} onPause={() => setPaused(!isPaused)} />
          <Button variant="primary" icon={Plus} onPress={() => open('new')}>
            New task
          </Button>
        </>
      }
      tabs={
        <Tabs
          label="Views"
          tabs={[
            { label: 'Board', search: { ...given, view: undefined, page: undefined }, isCurrent: !isList },
            { label: 'List', search: { ...given, view: 'list' }, isCurrent: isList },
          ]}
        />
      }
    >
      {all.error && <ErrorBox error={all.error} onRetry={() => void all.refetch()} />}
      {all.data?.total === 0 ? (
        <Empty
          icon={ListTodo}
          title="No tasks yet"
          command={`${COMMAND} task create 'Check the report' --priority high`}
        >
          Agents and people assign work to each other here. Create a task above, or from a terminal:
        </Empty>
      ) : (
        <>
          <div className="flex flex-wrap items-end gap-2" data-filter>
            <TextField
              label="Project"
              placeholder="Exact name"
              value={given.project ?? ''}
              onChange={(project) => change({ project: project || undefined })}
            />
            <div className="w-36">
              <Select
                label="Priority"
                choices={[{ id: '', label: 'All' }, ...PRIORITIES.map((id) => ({ id, label: id }))]}
                value={filter.priority ?? ''}
                onChange={(priority) => change({ priority: priority || undefined })}
              />
            </div>
            {isList && (
              <div className="w-36">
                <Select
                  label="Status"
                  choices={[{ id: '', label: 'All' }, ...STATUSES.map((id) => ({ id, label: STATUS_LABELS[id] }))]}
                  value={given.status ?? ''}
                  onChange={(status) => change({ status: status || undefined })}
                />
              </div>
            )}
            <div className="flex h-8 items-center">
              <Checkbox
                value={filter.overdue !== undefined}
                onChange={(isOn) => change({ overdue: isOn ? 'yes' : undefined })}
              >
                Overdue only
              </Checkbox>
            </div>
          </div>
          {isList ? (
            <TaskList filter={filter} isHidden={(task) => later.isDeleted(task.id)} />
          ) : (
            <TaskBoard filter={filter} isHidden={(task) => later.isDeleted(task.id)} onMove={move} />
          )}
        </>
      )}
      {given.task !== undefined && (
        <TaskDialog
          id={given.task === 'new' ? undefined : given.task}
          onClose={() => open(undefined)}
          onDelete={(task) => {
            later.remove(task.id, { params: { task_id: task.id } }, 'Task deleted.');
            open(undefined);
          }}
        />
      )}
    </Page>
  );
}

function TaskList({
  filter,
  isHidden,
}: {
  readonly filter: { readonly project?: string; readonly priority?: Priority; readonly overdue?: 'true' };
  readonly isHidden: (task: Task) => boolean;
}) {
  const { id: workspace_id } = useWorkspace();
  const { status: wanted, page: text } = route.useSearch();
  const navigate = route.useNavigate();
  const page = Math.max(0, Math.trunc(Number(text ?? 0)) || 0);
  const status = STATUSES.find((each) => each === wanted);
  const { data, error, refetch } = useOperation(
    'listWorkspaceTasks',
    { params: { workspace_id }, query: { ...filter, status, limit: PAGE, offset: page * PAGE } },
    { placeholderData: (before) => before },
  );
  const show = (next: number) =>
    void navigate({ search: (now) => ({ ...now, page: next === 0 ? undefined : String(next) }) });
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loading />;
  return (
    <>
      <Table
        label="Tasks"
        rows={data.tasks.filter((task) => !isHidden(task))}
        keyOf={({ id }) => id}
        linkOf={({ id }) => ({ to: '.', search: (now: object) => ({ ...now, task: id }) })}
        columns={[
          { title: 'Task', cell: ({ title }) => <span className="line-clamp-2">{escapeText(title)}</span> },
          { title: 'Status', cell: (task) => <Status value={task.status} /> },
          { title: 'Priority', cell: ({ priority }) => <PriorityBadge value={priority} />, from: 'sm' },
          { title: 'Due', cell: (task) => <DueDate task={task} />, from: 'sm' },
          { title: 'Project', cell: ({ project }) => escapeText(project ?? ''), from: 'md' },
          { title: 'Created by', cell: ({ created_by }) => <Creator name={created_by} />, from: 'lg' },
          { title: 'Created', cell: ({ created_at }) => <Time at={created_at} />, from: 'md' },
        ]}
        empty={<NoMatch icon={ListTodo} title="No task matches these filters" search={{ view: 'list' }} />}
      />
      {data.total > PAGE && (
        <div className="flex items-center gap-2">
          <Button isDisabled={page === 0} onPress={() => show(page - 1)}>
            Previous
          </Button>
          <Button isDisabled={(page + 1) * PAGE >= data.total} onPress={() => show(page + 1)}>
            Next page
          </Button>
          <span className="text-soft">
            {count(page * PAGE + 1)} to {count(Math.min(data.total, (page + 1) * PAGE))} of {count(data.total)}
          </span>
        </div>
      )}
    </>
  );
}

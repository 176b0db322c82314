import { Trash2 } from 'lucide-react';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Loading } from '../../ui/loading.tsx';
import { PRIORITIES, type Priority, STATUS_LABELS, STATUSES, type Task, type TaskStatus } from './task.ts';
import { Creator } from './task-parts.tsx';

const LISTS = ['listWorkspaceTasks', 'getTask'] as const;
const NEW = {
  title: '',
  description: null,
  due_date: null,
  project: null,
  priority: 'normal',
  status: 'open',
} as const;

interface DialogProps {
  readonly onClose: () => void;
  readonly onDelete: (task: Task) => void;
}

/** Shows and edits a task; without `id`, creates one. */
export function TaskDialog({ id, ...rest }: DialogProps & { readonly id: string | undefined }) {
  const { data, error } = useOperation('getTask', { params: { task_id: id ?? '' } }, { enabled: id !== undefined });
  if (id === undefined) return <TaskForm {...rest} />;
  if (data) return <TaskForm key={id} of={data} {...rest} />;
  return (
    <Dialog title="Task" isOpen onClose={rest.onClose}>
      {error ? <ErrorBox error={error} /> : <Loading />}
    </Dialog>
  );
}

function TaskForm({ of, onClose, onDelete }: DialogProps & { readonly of?: Task }) {
  // Values at opening. Only changed fields are sent, so that concurrent changes are preserved.
  const [before] = useState<Pick<Task, keyof typeof NEW>>(of ?? NEW);
  const [task, setTask] = useState(before);
  const create = useAction('createTask', { stale: LISTS, silent: true });
  const update = useAction('updateTask', { stale: LISTS, silent: true });
  const set = (change: Partial<typeof task>) => setTask((now) => ({ ...now, ...change }));
  const changed = Object.fromEntries(
    Object.entries(task).filter(([name, value]) => name in NEW && value !== before[name as keyof typeof NEW]),
  );
  const save = () => {
    if (task.title.trim() === '') return;
    if (of === undefined) create.mutate({ body: { ...changed, title: task.title } }, { onSuccess: onClose });
    else update.mutate({ params: { task_id: of.id }, body: changed }, { onSuccess: onClose });
  };
  useKeys({ 'Mod+Enter': save });
  const error = create.error ?? update.error;
  return (
    <Dialog
      title={of === undefined ? 'New task' : 'Task'}
      size="large"
      isOpen
      onClose={onClose}
      actions={
        <>
          {of !== undefined && (
            <Button variant="danger" icon={Trash2} onPress={() => onDelete(of)}>
              Delete task
            </Button>
          )}
          <Button
            variant="primary"
            onPress={save}
            isPending={create.isPending || update.isPending}
            isDisabled={task.title.trim() === '' || (of !== undefined && Object.keys(changed).length === 0)}
          >
            {of === undefined ? 'Create task' : 'Save'}
          </Button>
        </>
      }
    >
      <TextField
        label="Title"
        value={task.title}
        maxLength={500}
        autoFocus={of === undefined}
        onChange={(title) => set({ title })}
      />
      <TextField
        label="Description"
        lines={6}
        maxLength={10_000}
        value={task.description ?? ''}
        onChange={(text) => set({ description: text === '' ? null : text })}
      />
      <div className="grid gap-3 sm:grid-cols-2">
        <Select
          label="Status"
          choices={STATUSES.map((each) => ({ id: each, label: STATUS_LABELS[each] }))}
          value={task.status}
          onChange={(status) => set({ status: status as TaskStatus })}
        />
        <Select
          label="Priority"
          choices={PRIORITIES.map((each) => ({ id: each, label: each }))}
          value={task.priority}
          onChange={(priority) => set({ priority: priority as Priority })}
        />
        <TextField
          label="Due date"
          type="date"
          value={task.due_date ?? ''}
          onChange={(date) => set({ due_date: date === '' ? null : date })}
        />
        <TextField
          label="Project"
          maxLength={100}
          value={task.project ?? ''}
          onChange={(project) => set({ project: project === '' ? null : project })}
        />
      </div>
      {of !== undefined && (
        <p className="text-soft">
          Created <Time at={of.created_at} /> by <Creator name={of.created_by} />
          {of.completed_at !== null && (
            <>
              , done <Time at={of.completed_at} />
            </>
          )}
        </p>
      )}
      {error && <ErrorBox error={error} />}
    </Dialog>
  );
}

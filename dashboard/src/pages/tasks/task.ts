import type { AnswerOf } from '../../api/client.ts';

export type Task = AnswerOf<'listWorkspaceTasks'>['tasks'][number];
export type TaskStatus = Task['status'];
export type Priority = Task['priority'];

export const STATUSES = ['open', 'in_progress', 'done', 'cancelled'] as const satisfies readonly TaskStatus[];
export const STATUS_LABELS: Readonly<Record<TaskStatus, string>> = {
  open: 'Open',
  in_progress: 'In progress',
  done: 'Done',
  cancelled: 'Cancelled',
};
export const PRIORITIES = ['urgent', 'high', 'normal', 'low'] as const satisfies readonly Priority[];

/** Whether an open task is past its due date in the workspace's time zone, as in the filter `overdue`. */
export const isOverdue = ({ status, due_date }: Task, timeZone: string): boolean =>
  status === 'open' &&
  due_date !== null &&
  due_date < new Intl.DateTimeFormat('en-CA', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).format();

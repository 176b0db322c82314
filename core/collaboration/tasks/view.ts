import type * as z from 'zod';
import type { taskSchema } from './routes.ts';
import type { Task, TaskMembers } from './store.ts';

export const taskView = ({
  dueDate,
  createdBy,
  createdAt,
  completedAt,
  ...task
}: Task): z.output<typeof taskSchema> => ({
  ...task,
  due_date: dueDate,
  created_by: createdBy,
  created_at: createdAt,
  completed_at: completedAt,
});

/** Returns the members of a task that a body sets. */
export const membersFrom = <Body extends { readonly due_date?: string | null | undefined }>({
  due_date: dueDate,
  ...members
}: Body): Omit<Body, 'due_date'> & Pick<TaskMembers, 'dueDate'> => ({ ...members, dueDate });

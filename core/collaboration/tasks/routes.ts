import * as z from 'zod';
import { flag } from '#core/http/flag.ts';
import { printableLine } from '#core/http/printable-line.ts';
import { defineRoutes } from '#core/http/route.ts';

export const STATUSES = ['open', 'in_progress', 'done', 'cancelled'] as const;
/** Priorities, most urgent first. */
export const PRIORITIES = ['urgent', 'high', 'normal', 'low'] as const;

const status = z.enum(STATUSES);
const priority = z.enum(PRIORITIES);
/** Used in keys, which cannot contain half of a surrogate pair. */
const project = z
  .string()
  .trim()
  .min(1, 'must not be empty')
  .max(100, 'must have at most 100 characters')
  .transform((text) => text.toWellFormed());
const dueDate = z.iso
  .date('must be a date of the form YYYY-MM-DD')
  .regex(/^2/, 'must be a date of the years 2000 to 2999');

/** `null` resets a member that always has a value to its default. */
const orDefault = <T extends z.ZodType>(type: T, value: z.output<T>) =>
  type.nullish().transform((given) => (given === null ? value : given));

const members = z.object({
  title: printableLine(500),
  description: z.string().max(10_000, 'must have at most 10,000 characters').nullable().optional(),
  due_date: dueDate.nullable().optional().describe('Due date, such as `2026-11-21`. null: none.'),
  project: printableLine(100)
    .nullable()
    .optional()
    .describe('Project of the task: one line of printable text. null: none.'),
  priority: orDefault(priority, 'normal'),
  status: orDefault(status, 'open'),
});

/** A task in its API form. */
export const taskSchema = z.object({
  id: z.uuid(),
  title: z.string(),
  description: z.string().nullable(),
  due_date: z.string().nullable(),
  project: z.string().nullable(),
  priority,
  status,
  created_by: z.string().nullable().describe('Name of the agent or email address of the user that created the task.'),
  created_at: z.iso.datetime(),
  completed_at: z.iso.datetime().nullable().describe('When the task was completed. null: it is not done.'),
});

const query = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  offset: z.coerce.number().int().min(0).max(10_000).default(0),
  status: status.optional(),
  project: project.optional(),
  priority: priority.optional(),
  overdue: flag.default(false).describe('Only open tasks whose due date has passed in the workspace’s time zone.'),
});
const page = z.object({
  tasks: z.array(taskSchema),
  total: z.int().describe('Number of matching tasks on all pages.'),
});

export const taskRoutes = defineRoutes([
  {
    operationId: 'createTask',
    method: 'POST',
    path: '/tasks',
    summary: 'Create a task',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'tasks',
    request: { body: members },
    response: { 201: taskSchema },
  },
  {
    operationId: 'listTasks',
    method: 'GET',
    path: '/tasks',
    summary: 'List the tasks of the current workspace, most urgent first',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'tasks',
    request: { query },
    response: { 200: page },
  },
  {
    operationId: 'listWorkspaceTasks',
    method: 'GET',
    path: '/workspaces/{workspace_id}/tasks',
    summary: 'List the tasks of a workspace, most urgent first',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'tasks',
    request: { query },
    response: { 200: page },
  },
  {
    operationId: 'getTask',
    method: 'GET',
    path: '/tasks/{task_id}',
    summary: 'Show a task',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'tasks',
    response: { 200: taskSchema },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'updateTask',
    method: 'PATCH',
    path: '/tasks/{task_id}',
    summary: 'Change a task; null clears a member',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'tasks',
    request: { body: members.partial() },
    response: { 200: taskSchema },
    errors: ['NOT_FOUND'],
  },
  {
    operationId: 'deleteTask',
    method: 'DELETE',
    path: '/tasks/{task_id}',
    summary: 'Delete a task',
    fn: 'tasks',
    auth: 'key',
    agents: true,
    scope: 'tasks',
    response: { 200: z.object({ deleted: z.literal(true), id: z.string() }) },
    errors: ['NOT_FOUND'],
  },
]);

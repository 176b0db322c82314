import { operations } from '../operation.ts';

const columns = ['id', 'title', 'status', 'priority', 'due_date', 'project', 'created_by'];

export default operations([
  { name: 'list', operation: 'listTasks', list: 'tasks', columns, example: 'task list --status open' },
  {
    name: 'create',
    operation: 'createTask',
    args: ['title'],
    example: "task create 'Check the report' --priority high",
  },
  { name: 'info', operation: 'getTask', example: "task info 'Check the report'" },
  { name: 'update', operation: 'updateTask', example: "task update 'Check the report' --due-date 2026-12-01" },
  {
    name: 'done',
    operation: 'updateTask',
    summary: 'Mark a task as done',
    fixed: { status: 'done' },
    options: [],
    example: "task done 'Check the report'",
  },
  {
    name: 'delete',
    operation: 'deleteTask',
    confirm: 'Delete the task',
    example: "task delete 'Check the report' --yes",
  },
]);

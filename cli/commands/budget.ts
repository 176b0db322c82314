import { operations } from '../operation.ts';

const columns = [
  'id',
  'window',
  'agent',
  'current_spend_usd',
  'soft_limit_usd',
  'hard_limit_usd',
  'action_on_hard_limit',
  'breach_status',
];

export default operations([
  { name: 'list', operation: 'listBudgets', list: 'budgets', columns, example: 'budget list' },
  {
    name: 'create',
    operation: 'createBudget',
    args: ['scope_type', 'window'],
    one: 'budget',
    example: 'budget create workspace daily --hard-limit-usd 20 --action-on-hard-limit block_new_runs',
  },
  { name: 'info', operation: 'getBudget', one: 'budget', example: 'budget info daily' },
  { name: 'update', operation: 'updateBudget', one: 'budget', example: 'budget update daily --hard-limit-usd 50' },
  {
    name: 'alerts',
    operation: 'listBudgetAlerts',
    list: 'alerts',
    columns: ['created_at', 'severity', 'window', 'agent', 'message', 'delivery'],
    example: 'budget alerts',
  },
  { name: 'delete', operation: 'deleteBudget', confirm: 'Delete the budget', example: 'budget delete daily --yes' },
]);

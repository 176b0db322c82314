import { operations } from '../operation.ts';

export default operations([
  { name: 'summary', operation: 'getUsage', example: 'usage summary --days 7' },
  { name: 'days', operation: 'getUsageTimeseries', list: 'points', example: 'usage days' },
  {
    name: 'agents',
    operation: 'getUsageBreakdown',
    list: 'by_agent',
    columns: ['org_slug', 'agent_name', 'calls', 'errors', 'avg_duration_ms', 'models_usd', 'credits_cents'],
    example: 'usage agents',
  },
  { name: 'tenants', operation: 'listUsageTenants', list: 'tenants', example: 'usage tenants' },
  {
    name: 'calls',
    operation: 'listUsageLogs',
    list: 'logs',
    columns: ['run_id', 'agent', 'version', 'status', 'duration_ms', 'created_at'],
    example: 'usage calls --status failed',
  },
  {
    name: 'metrics',
    operation: 'getWorkspaceMetrics',
    list: 'agents',
    columns: [
      'agent_name',
      'latest_version',
      'total_runs',
      'success_rate',
      'p50_latency_ms',
      'p95_latency_ms',
      'top_error',
    ],
    example: 'usage metrics --agent-name hello',
  },
  { name: 'compute', operation: 'getComputeUsage', example: 'usage compute' },
  { name: 'author', operation: 'getAuthorUsage', example: 'usage author' },
  { name: 'author-days', operation: 'getAuthorUsageTimeseries', list: 'points', example: 'usage author-days' },
  { name: 'author-agents', operation: 'getAuthorUsageBreakdown', list: 'by_agent', example: 'usage author-agents' },
  { name: 'author-calls', operation: 'listAuthorUsageLogs', list: 'logs', example: 'usage author-calls' },
]);

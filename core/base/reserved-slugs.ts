/**
 * First path segments that can never be the slug of a workspace: those of the route table (a test compares), those that
 * clients know, and those that later routes need. A literal list, because every function reads settings and must not load
 * the route table for one of them.
 */
const RESERVED: ReadonlySet<string> = new Set([
  // The route table.
  ...[
    'agents',
    'api-keys',
    'auth',
    'author-usage',
    'billing',
    'health',
    'invites',
    'messages',
    'openapi.json',
    'org',
    'public',
  ],
  ...['runner', 'schedules', 'schemas', 'storage', 'tasks', 'uploads', 'usage', 'users', 'webhooks', 'workspaces'],
  // Known to clients.
  ...['environments', 'github', 'integrations', 'llm-keys', 'security'],
  // Needed by routes to come.
  ...['a2a', 'budgets', 'catalog', 'dashboard', 'docs', 'grants', 'mcp', 'metrics', 'operator', 'r'],
  'services',
]);

/** Whether no workspace may have this slug. Versions (`v1`) are reserved, too. */
export const isReservedSlug = (slug: string): boolean => RESERVED.has(slug) || /^v\d+$/.test(slug);

import routeSegments from './route-segments.json' with { type: 'json' };

/**
 * First path segments that can never be the slug of a workspace: those of the route table, those known to clients, and
 * those reserved for later routes. `npm run docs` writes the first list to a file, because every function reads settings
 * and must not load the route table for it.
 */
const RESERVED: ReadonlySet<string> = new Set([
  ...routeSegments,
  // Known to clients.
  ...['environments', 'github', 'integrations', 'llm-keys', 'security'],
  // Reserved for later routes.
  ...['a2a', 'budgets', 'catalog', 'dashboard', 'docs', 'grants', 'mcp', 'r'],
  'services',
  // Pages of the dashboard that are no pages of a workspace, such as `/dashboard/share/<token>`.
  ...['share', 'chat', 'authorize'],
]);

/** Whether no workspace may have this slug. Versions (`v1`) are reserved, too. */
export const isReservedSlug = (slug: string): boolean => RESERVED.has(slug) || /^v\d+$/.test(slug);

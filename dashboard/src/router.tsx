import type { QueryClient } from '@tanstack/react-query';
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from '@tanstack/react-router';
import { BASE_PATH } from './base.ts';
import { ErrorPage } from './frame/error-page.tsx';
import { NotFoundPage } from './frame/not-found-page.tsx';
import { RootFrame } from './frame/root-frame.tsx';
import { SignedInFrame } from './frame/signed-in-frame.tsx';
import { WorkspaceFrame } from './frame/workspace-frame.tsx';
import { Loading } from './ui/loading.tsx';

/**
 * All pages. Each is defined by its path, its search parameters, and a file that is loaded on demand. The state of a
 * page is in its URL: `search` lists the parameters, and every value is text.
 */
const root = createRootRouteWithContext<{ readonly queries: QueryClient }>()({
  component: RootFrame,
  notFoundComponent: NotFoundPage,
});

/** Validates search parameters: optional texts with these names; others are dropped. */
const search =
  <const Names extends readonly string[]>(...names: Names) =>
  (given: Record<string, unknown>): { [Name in Names[number]]?: string } =>
    Object.fromEntries(
      names.flatMap((name) => (typeof given[name] === 'string' && given[name] !== '' ? [[name, given[name]]] : [])),
    ) as never;

const login = createRoute({
  getParentRoute: () => root,
  path: '/login',
  validateSearch: search('to'),
  component: lazyRouteComponent(() => import('./pages/login/login-page.tsx'), 'LoginPage'),
});

/** For signed-in users and for visitors without an account. */
const invite = createRoute({
  getParentRoute: () => root,
  path: '/invites/$token',
  component: lazyRouteComponent(() => import('./pages/invites/invite-page.tsx'), 'InvitePage'),
});

/** The run of a link, for visitors without an account. */
const sharedRun = createRoute({
  getParentRoute: () => root,
  path: '/share/$token',
  component: lazyRouteComponent(() => import('./pages/runs/shared-run-page.tsx'), 'SharedRunPage'),
});

/** The chat or form of a link, for visitors without an account. */
const publicChat = createRoute({
  getParentRoute: () => root,
  path: '/chat/$token',
  component: lazyRouteComponent(() => import('./pages/chat-links/public-chat-page.tsx'), 'PublicChatPage'),
});

/** What a client asks for, of signed-in users. It stands alone, so that nothing distracts from the question. */
const authorize = createRoute({
  getParentRoute: () => root,
  path: '/authorize',
  validateSearch: search('request'),
  component: lazyRouteComponent(() => import('./pages/clients/authorize-page.tsx'), 'AuthorizePage'),
});

/** Pages for signed-in users; others are redirected to the sign-in page and back. */
const signedIn = createRoute({ getParentRoute: () => root, id: 'signed-in', component: SignedInFrame });

const start = createRoute({
  getParentRoute: () => signedIn,
  path: '/',
  component: lazyRouteComponent(() => import('./pages/start/start-page.tsx'), 'StartPage'),
});

const system = createRoute({
  getParentRoute: () => signedIn,
  path: '/system',
  component: lazyRouteComponent(() => import('./pages/system/system-page.tsx'), 'SystemPage'),
});

/** Pages of a workspace, which `useWorkspace()` returns. */
const workspace = createRoute({ getParentRoute: () => signedIn, path: '/$workspace', component: WorkspaceFrame });

const overview = createRoute({
  getParentRoute: () => workspace,
  path: '/',
  validateSearch: search('days'),
  component: lazyRouteComponent(() => import('./pages/overview/overview-page.tsx'), 'OverviewPage'),
});

const agents = createRoute({
  getParentRoute: () => workspace,
  path: '/agents',
  validateSearch: search('q', 'type'),
  component: lazyRouteComponent(() => import('./pages/agents/agents-page.tsx'), 'AgentsPage'),
});

const agent = createRoute({
  getParentRoute: () => workspace,
  path: '/agents/$name',
  validateSearch: search('v', 'tab', 'input', 'from', 'with', 'file'),
  component: lazyRouteComponent(() => import('./pages/agents/agent-page.tsx'), 'AgentPage'),
});

const evaluation = createRoute({
  getParentRoute: () => workspace,
  path: '/agents/$name/evals/$eval',
  validateSearch: search('only', 'case'),
  component: lazyRouteComponent(() => import('./pages/agents/evals/eval-page.tsx'), 'EvalPage'),
});

const chat = createRoute({
  getParentRoute: () => workspace,
  path: '/agents/$name/chat',
  validateSearch: search('session', 'q'),
  component: lazyRouteComponent(() => import('./pages/chat/chat-page.tsx'), 'ChatPage'),
});

const examples = createRoute({
  getParentRoute: () => workspace,
  path: '/examples',
  component: lazyRouteComponent(() => import('./pages/examples/examples-page.tsx'), 'ExamplesPage'),
});

const catalog = createRoute({
  getParentRoute: () => workspace,
  path: '/catalog',
  validateSearch: search('q', 'type', 'page'),
  component: lazyRouteComponent(() => import('./pages/catalog/catalog-page.tsx'), 'CatalogPage'),
});

const catalogAgent = createRoute({
  getParentRoute: () => workspace,
  path: '/catalog/$org/$agent',
  validateSearch: search('tab', 'input', 'from'),
  component: lazyRouteComponent(() => import('./pages/catalog/catalog-agent-page.tsx'), 'CatalogAgentPage'),
});

const runs = createRoute({
  getParentRoute: () => workspace,
  path: '/runs',
  validateSearch: search(
    ...([
      'q',
      'status',
      'agent',
      'version',
      'source',
      'schedule',
      'tenant',
      'since',
      'from',
      'to',
      'top',
      'bulk',
    ] as const),
  ),
  component: lazyRouteComponent(() => import('./pages/runs/runs-page.tsx'), 'RunsPage'),
});

const compareRuns = createRoute({
  getParentRoute: () => workspace,
  path: '/runs/compare',
  validateSearch: search('a', 'b'),
  component: lazyRouteComponent(() => import('./pages/runs/compare-page.tsx'), 'ComparePage'),
});

const run = createRoute({
  getParentRoute: () => workspace,
  path: '/runs/$run',
  validateSearch: search('tab', 'span', 'only', 'zoom', 'view', 'critical', 'stream', 'find'),
  component: lazyRouteComponent(() => import('./pages/runs/run-page.tsx'), 'RunPage'),
});

const approvals = createRoute({
  getParentRoute: () => workspace,
  path: '/approvals',
  validateSearch: search('show', 'agent'),
  component: lazyRouteComponent(() => import('./pages/approvals/approvals-page.tsx'), 'ApprovalsPage'),
});

/** Target of links without a workspace: in mails, errors and CLI output. */
const findRun = createRoute({
  getParentRoute: () => signedIn,
  path: '/r/$run',
  component: lazyRouteComponent(() => import('./pages/runs/find-run-page.tsx'), 'FindRunPage'),
});

const usage = createRoute({
  getParentRoute: () => workspace,
  path: '/usage',
  validateSearch: search('days', 'tenant', 'view'),
  component: lazyRouteComponent(() => import('./pages/usage/usage-page.tsx'), 'UsagePage'),
});

const billing = createRoute({
  getParentRoute: () => workspace,
  path: '/billing',
  validateSearch: search('tab', 'page'),
  component: lazyRouteComponent(() => import('./pages/billing/billing-page.tsx'), 'BillingPage'),
});

const settings = createRoute({
  getParentRoute: () => workspace,
  path: '/settings',
  beforeLoad: ({ params }) => {
    throw redirect({ to: '/$workspace/settings/general', params, replace: true });
  },
});

const general = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/general',
  component: lazyRouteComponent(() => import('./pages/settings/general-page.tsx'), 'GeneralPage'),
});

const members = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/members',
  component: lazyRouteComponent(() => import('./pages/settings/members-page.tsx'), 'MembersPage'),
});

const schedules = createRoute({
  getParentRoute: () => workspace,
  path: '/schedules',
  validateSearch: search('q', 'type', 'state', 'page', 'week'),
  component: lazyRouteComponent(() => import('./pages/schedules/schedules-page.tsx'), 'SchedulesPage'),
});

const newSchedule = createRoute({
  getParentRoute: () => workspace,
  path: '/schedules/new',
  validateSearch: search('from', 'agent'),
  component: lazyRouteComponent(() => import('./pages/schedules/new-schedule-page.tsx'), 'NewSchedulePage'),
});

const schedule = createRoute({
  getParentRoute: () => workspace,
  path: '/schedules/$schedule',
  validateSearch: search('edit'),
  component: lazyRouteComponent(() => import('./pages/schedules/schedule-page.tsx'), 'SchedulePage'),
});

const services = createRoute({
  getParentRoute: () => workspace,
  path: '/services',
  component: lazyRouteComponent(() => import('./pages/services/services-page.tsx'), 'ServicesPage'),
});

const newService = createRoute({
  getParentRoute: () => workspace,
  path: '/services/new',
  validateSearch: search('agent'),
  component: lazyRouteComponent(() => import('./pages/services/new-service-page.tsx'), 'NewServicePage'),
});

const service = createRoute({
  getParentRoute: () => workspace,
  path: '/services/$service',
  validateSearch: search('tab', 'level', 'q'),
  component: lazyRouteComponent(() => import('./pages/services/service-page.tsx'), 'ServicePage'),
});

const tasks = createRoute({
  getParentRoute: () => workspace,
  path: '/tasks',
  validateSearch: search('view', 'project', 'priority', 'status', 'overdue', 'page', 'task'),
  component: lazyRouteComponent(() => import('./pages/tasks/tasks-page.tsx'), 'TasksPage'),
});

const messages = createRoute({
  getParentRoute: () => workspace,
  path: '/messages',
  validateSearch: search('level', 'agent'),
  component: lazyRouteComponent(() => import('./pages/messages/messages-page.tsx'), 'MessagesPage'),
});

const storage = createRoute({
  getParentRoute: () => workspace,
  path: '/storage',
  component: lazyRouteComponent(() => import('./pages/storage/storage-page.tsx'), 'StoragePage'),
});

const namespace = createRoute({
  getParentRoute: () => workspace,
  path: '/storage/$namespace',
  validateSearch: search('q'),
  component: lazyRouteComponent(() => import('./pages/storage/namespace-page.tsx'), 'NamespacePage'),
});

const document = createRoute({
  getParentRoute: () => workspace,
  path: '/storage/$namespace/$key',
  validateSearch: search('new'),
  component: lazyRouteComponent(() => import('./pages/storage/document-page.tsx'), 'DocumentPage'),
});

const memory = createRoute({
  getParentRoute: () => workspace,
  path: '/memory',
  validateSearch: search('q', 'tenant'),
  component: lazyRouteComponent(() => import('./pages/memory/memory-page.tsx'), 'MemoryPage'),
});

const memoryDocument = createRoute({
  getParentRoute: () => workspace,
  path: '/memory/$name',
  validateSearch: search('tenant', 'new'),
  component: lazyRouteComponent(() => import('./pages/memory/memory-document-page.tsx'), 'MemoryDocumentPage'),
});

const keys = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/keys',
  component: lazyRouteComponent(() => import('./pages/settings/keys-page.tsx'), 'KeysPage'),
});

const clients = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/clients',
  component: lazyRouteComponent(() => import('./pages/settings/clients-page.tsx'), 'ClientsPage'),
});

const trusts = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/trusts',
  component: lazyRouteComponent(() => import('./pages/settings/trusts-page.tsx'), 'TrustsPage'),
});

const secrets = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/secrets',
  component: lazyRouteComponent(() => import('./pages/settings/secrets-page.tsx'), 'SecretsPage'),
});

const providers = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/providers',
  component: lazyRouteComponent(() => import('./pages/settings/providers-page.tsx'), 'ProvidersPage'),
});

const destinations = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/destinations',
  component: lazyRouteComponent(() => import('./pages/settings/destinations-page.tsx'), 'DestinationsPage'),
});

const telemetry = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/telemetry',
  component: lazyRouteComponent(() => import('./pages/settings/telemetry-page.tsx'), 'TelemetryPage'),
});

const signing = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/signing',
  component: lazyRouteComponent(() => import('./pages/settings/signing-page.tsx'), 'SigningPage'),
});

const grants = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/grants',
  component: lazyRouteComponent(() => import('./pages/settings/grants-page.tsx'), 'GrantsPage'),
});

const audit = createRoute({
  getParentRoute: () => workspace,
  path: '/settings/audit',
  validateSearch: search('cursor'),
  component: lazyRouteComponent(() => import('./pages/settings/audit-page.tsx'), 'AuditPage'),
});

const tree = root.addChildren([
  login,
  invite,
  sharedRun,
  publicChat,
  authorize,
  signedIn.addChildren([
    start,
    system,
    findRun,
    workspace.addChildren([
      overview,
      agents,
      agent,
      evaluation,
      chat,
      examples,
      catalog,
      catalogAgent,
      runs,
      compareRuns,
      run,
      approvals,
      schedules,
      newSchedule,
      schedule,
      services,
      newService,
      service,
      tasks,
      messages,
      storage,
      namespace,
      document,
      memory,
      memoryDocument,
      usage,
      billing,
      settings,
      general,
      members,
      keys,
      clients,
      trusts,
      secrets,
      providers,
      destinations,
      telemetry,
      signing,
      grants,
      audit,
    ]),
  ]),
]);

export const createPages = (queries: QueryClient) =>
  createRouter({
    routeTree: tree,
    basepath: BASE_PATH,
    context: { queries },
    // Every value is text, even if it looks like a number.
    parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: (values) => {
      const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== '');
      return given.length === 0 ? '' : `?${new URLSearchParams(given as [string, string][])}`;
    },
    defaultPreload: 'intent',
    defaultPendingComponent: () => (
      <div className="p-6">
        <Loading />
      </div>
    ),
    defaultErrorComponent: ErrorPage,
    scrollRestoration: true,
  });

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof createPages>;
  }
  interface HistoryState {
    /** Input with which the playground opens, as JSON. */
    readonly input?: string;
  }
}

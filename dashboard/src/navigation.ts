import {
  Activity,
  Bot,
  CalendarClock,
  ChartColumn,
  Database,
  Gauge,
  HeartPulse,
  Inbox,
  LayoutGrid,
  LibraryBig,
  ListTodo,
  type LucideIcon,
  Notebook,
  Server,
  Settings,
  UserCheck,
  Wallet,
} from 'lucide-react';

/** A workspace page in the side navigation and the command palette. */
export interface Place {
  /** Route path, as in `router.tsx`. */
  readonly to: string;
  readonly label: string;
  readonly icon: LucideIcon;
  /** Second key of the `g` shortcut. */
  readonly key?: string;
}

/** Its link counts what waits for people. */
export const APPROVALS = '/$workspace/approvals';

/** Pages in the order of the side navigation. Only existing pages are listed. */
export const WORKSPACE_PLACES: readonly Place[] = [
  { to: '/$workspace', label: 'Overview', icon: Gauge, key: 'o' },
  { to: '/$workspace/agents', label: 'Agents', icon: Bot, key: 'a' },
  { to: '/$workspace/runs', label: 'Runs', icon: Activity, key: 'r' },
  { to: APPROVALS, label: 'Approvals', icon: UserCheck, key: 'p' },
  { to: '/$workspace/schedules', label: 'Schedules', icon: CalendarClock, key: 's' },
  { to: '/$workspace/services', label: 'Services', icon: Server, key: 'v' },
  { to: '/$workspace/tasks', label: 'Tasks', icon: ListTodo, key: 't' },
  { to: '/$workspace/messages', label: 'Messages', icon: Inbox, key: 'm' },
  { to: '/$workspace/storage', label: 'Storage', icon: Database, key: 'd' },
  { to: '/$workspace/memory', label: 'Memory', icon: Notebook },
  { to: '/$workspace/usage', label: 'Usage', icon: ChartColumn, key: 'u' },
  { to: '/$workspace/examples', label: 'Examples', icon: LayoutGrid, key: 'e' },
  { to: '/$workspace/catalog', label: 'Catalog', icon: LibraryBig, key: 'c' },
  { to: '/$workspace/billing', label: 'Billing', icon: Wallet, key: 'b' },
  { to: '/$workspace/settings', label: 'Settings', icon: Settings },
];

/** Pages outside a workspace, listed below them. */
export const OTHER_PLACES: readonly Place[] = [{ to: '/system', label: 'System', icon: HeartPulse }];

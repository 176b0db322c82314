import { Activity, Bot, CalendarClock, ChartColumn, Gauge, type LucideIcon, Settings } from 'lucide-react';

/** A page of a workspace in the side navigation and the palette. */
export interface Place {
  /** As in `router.tsx`. */
  readonly to: string;
  readonly label: string;
  readonly icon: LucideIcon;
  /** `g`, then this key, goes there. */
  readonly key?: string;
}

/** In the order of the side navigation. A page stands here once it exists. */
export const WORKSPACE_PLACES: readonly Place[] = [
  { to: '/$workspace', label: 'Overview', icon: Gauge, key: 'o' },
  { to: '/$workspace/agents', label: 'Agents', icon: Bot, key: 'a' },
  { to: '/$workspace/runs', label: 'Runs', icon: Activity, key: 'r' },
  { to: '/$workspace/schedules', label: 'Schedules', icon: CalendarClock, key: 's' },
  { to: '/$workspace/usage', label: 'Usage', icon: ChartColumn, key: 'u' },
  { to: '/$workspace/settings', label: 'Settings', icon: Settings },
];

/** Pages of no workspace, below them. */
export const OTHER_PLACES: readonly Place[] = [];

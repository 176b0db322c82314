import { execFileSync } from 'node:child_process';
import { BUILD, DASHBOARD, isStale } from '#local/http/dashboard.ts';

/** The files of the dashboard, built if sources are newer: in a process of its own, because Vite is no part of anything else. Throws if that fails. */
export function buildDashboard(): string {
  if (isStale(DASHBOARD)) execFileSync(process.execPath, BUILD, { stdio: ['ignore', 2, 2] });
  return DASHBOARD;
}

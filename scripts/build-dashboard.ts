import { execFileSync } from 'node:child_process';
import { BUILD, DASHBOARD, isStale } from '#local/http/dashboard.ts';

/**
 * Builds the dashboard if its sources are newer, and returns the folder of its files. Runs in its own process, because
 * only the dashboard needs Vite. Throws if the build fails.
 */
export function buildDashboard(): string {
  if (isStale(DASHBOARD)) execFileSync(process.execPath, BUILD, { stdio: ['ignore', 2, 2] });
  return DASHBOARD;
}

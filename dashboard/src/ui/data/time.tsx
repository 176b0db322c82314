import { useEffect, useState } from 'react';
import { Hinted } from '../tooltip.tsx';

const UNITS: readonly (readonly [unit: Intl.RelativeTimeFormatUnit, ms: number])[] = [
  ['year', 31_557_600_000],
  ['month', 2_629_800_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' });
const LOCAL = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** Formats a relative time: "3 min. ago", "in 2 hr.". */
export function relativeTime(at: number, now = Date.now()): string {
  const difference = at - now;
  const [unit, ms] = UNITS.find(([, size]) => Math.abs(difference) >= size) ?? UNITS.at(-1)!;
  return RELATIVE.format(Math.trunc(difference / ms), unit);
}

/** Formats a time in local time and UTC: "23 Nov 2026, 04:08:18 (Europe/Berlin) · 2026-11-23 03:08:18 UTC". */
export function absoluteTime(at: number): string {
  const utc = new Date(at).toISOString().replace('T', ' ').slice(0, 19);
  return `${LOCAL.format(at)} (${Intl.DateTimeFormat().resolvedOptions().timeZone}) · ${utc} UTC`;
}

/** Returns the current time and rerenders periodically. @param everyMs 0 for never */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (everyMs === 0) return;
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** A relative time, with local time and UTC on hover and focus. `undefined` and null are a dash. */
export function Time({ at }: { readonly at: string | number | null | undefined }) {
  const moment = at === null || at === undefined ? Number.NaN : typeof at === 'number' ? at : Date.parse(at);
  const isRecent = Math.abs(Date.now() - moment) < 3_600_000;
  const now = useNow(isRecent ? 5_000 : 60_000);
  if (Number.isNaN(moment)) return <span className="text-soft">–</span>;
  return (
    <Hinted text={() => absoluteTime(moment)}>
      <time dateTime={new Date(moment).toISOString()}>{relativeTime(moment, now)}</time>
    </Hinted>
  );
}

/** Formats a duration: "840 ms", "12.3 s", "4 min 05 s". */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const [minutes, seconds] = [Math.floor(ms / 60_000), Math.floor((ms % 60_000) / 1000)];
  if (minutes < 60) return `${minutes} min ${String(seconds).padStart(2, '0')} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} min`;
}

export function Duration({ ms }: { readonly ms: number | null | undefined }) {
  if (ms === null || ms === undefined) return <span className="text-soft">–</span>;
  return <span className="whitespace-nowrap">{duration(ms)}</span>;
}

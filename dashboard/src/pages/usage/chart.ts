import { lazy } from 'react';

/** Charts need a large library, which is loaded on demand. */
export const Chart = lazy(async () => ({
  default: (await import('../../ui/data/chart.tsx')).Chart,
})) as unknown as typeof import('../../ui/data/chart.tsx').Chart;

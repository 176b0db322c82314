import { lazy } from 'react';

/** Charts bring a large library, which is loaded when one is shown. */
export const Chart = lazy(async () => ({
  default: (await import('../../ui/data/chart.tsx')).Chart,
})) as unknown as typeof import('../../ui/data/chart.tsx').Chart;

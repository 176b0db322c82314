/** The day on which the prices of `models.json` were last compared with those of the providers. Change both together. */
export const PRICES_OF = '2026-11-22';

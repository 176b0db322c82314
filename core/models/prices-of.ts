/**
 * Day on which the prices of `models.json` were last compared with the providers' price lists. Change both together.
 */
export const PRICES_OF = '2026-11-22';

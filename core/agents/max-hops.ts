/** No chain of calls is longer, whatever a manifest or a caller allows: each level has a budget, counted in one transaction. */
export const MAX_HOPS = 10;

/** Agent published by the getting-started page. It needs no model, so it runs on every platform. */
export const EXAMPLE = 'hello';

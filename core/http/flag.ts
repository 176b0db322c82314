import * as z from 'zod';

const TRUTHY = ['true', '1', 'yes', 'on', 'y', 'enabled'];
const FALSY = ['false', '0', 'no', 'off', 'n', 'disabled'];

/** A yes-or-no parameter of a query. Zod would call it any text in the OpenAPI document. */
export const flag = z.stringbool({ truthy: TRUTHY, falsy: FALSY }).meta({ enum: [...TRUTHY, ...FALSY] });

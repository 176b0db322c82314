import { testPages } from './page-commands.ts';

testPages();

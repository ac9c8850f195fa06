/* The page with runs side by side: the switch of the statistic, and files of tables and drawings.
 *
 * Everything is in the markup (html/compared.rs). */

import { offerDownloads } from "./export.js";
import { addSwitches } from "./switches.js";

addSwitches();
offerDownloads(document);

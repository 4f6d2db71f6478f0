"""GP-UCB and those of its descendants that forget: one recipe each, and its record beside it."""

from tvbandits.policies.ucb_family.drifting import et_gp_ucb as et_gp_ucb
from tvbandits.policies.ucb_family.drifting import tv_gp_ucb as tv_gp_ucb
from tvbandits.policies.ucb_family.drifting import ui_gp_ucb as ui_gp_ucb
from tvbandits.policies.ucb_family.forgetting import gp_ucb as gp_ucb
from tvbandits.policies.ucb_family.forgetting import r_gp_ucb as r_gp_ucb
from tvbandits.policies.ucb_family.forgetting import sw_gp_ucb as sw_gp_ucb
from tvbandits.policies.ucb_family.forgetting import w_gp_ucb as w_gp_ucb
